"""Tracking: every run is an MLflow run. Nothing else in foxflow knows MLflow; MLflow is loaded at the first use."""

from foxflow.track.attach import attach as attach
from foxflow.track.names import resolve as resolve
from foxflow.track.names import run_id as run_id
from foxflow.track.run import Tracked as Tracked
from foxflow.track.run import open_run as open_run
from foxflow.track.store import store as store
from foxflow.track.sync import Synced as Synced
from foxflow.track.sync import sync as sync
from foxflow.track.twins import Twin as Twin
from foxflow.track.twins import find_twin as find_twin
