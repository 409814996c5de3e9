"""From what a user types for a run to the folder of its record."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow.errors import NoRecord, must
from foxflow.track.run import local_folder
from foxflow.track.store import find_client, in_one_line, store

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


def resolve(name: str) -> Path:
    """Find the record of a run.

    Args:
        name: a folder, an MLflow run id, a run's name or the start of an id; what comes first here is taken.

    Returns:
        The record's folder; the real one where artifacts lie on this machine, else a copy that goes at exit.

    Raises:
        NoRecord: nothing is called so, or the run has no record.
        Mistake: several runs are called so.
    """
    if Path(name).is_dir():
        return Path(name)
    client, run = _one(name)
    with in_one_line(store()):
        return _folder(client, run)


def run_id(name: str) -> str | None:
    """The MLflow id of what `resolve` finds; None of a folder.

    Raises:
        NoRecord: nothing is called so.
        Mistake: several runs are called so.
    """
    return None if Path(name).is_dir() else str(identify(name).info.run_id)


def identify(name: str) -> Run:
    """Find a run by its id, its name or the start of its id.

    Raises:
        NoRecord: nothing is called so.
        Mistake: several runs are called so.
    """
    return _one(name)[1]


def _one(name: str) -> tuple[MlflowClient, Run]:
    client = find_client()
    with in_one_line(store()):
        runs = _called(client, name) if client else []
    if client is None or not runs:
        got = f"{name}, a deleted run" if client and _deleted(client, name) else name
        do = "See 'foxflow ui' for the runs; 'mlflow runs restore' brings a deleted one back."
        raise must("RUN", "be a folder, a run id or a run name", got, do, NoRecord)
    if len(runs) > 1:
        listed = ", ".join(f"{run.info.run_id} ({run.info.run_name})" for run in runs[:8])
        raise must("RUN", "name one run", f"{name}, which {len(runs)} runs match: {listed}", "Give more of the id.")
    return client, runs[0]


def _deleted(client: MlflowClient, name: str) -> bool:
    from mlflow.entities import ViewType

    everywhere = [one.experiment_id for one in client.search_experiments(view_type=ViewType.ALL)]
    wanted = f"attributes.run_id LIKE '{name}%'" if re.fullmatch(r"[0-9a-f]{1,32}", name) else None
    return bool(wanted and client.search_runs(everywhere, wanted, ViewType.DELETED_ONLY, max_results=1))


def _called(client: MlflowClient, name: str) -> list[Run]:
    """Runs of the whole store: the one with this id, else those with this name, else those whose id starts so."""
    everywhere = [experiment.experiment_id for experiment in client.search_experiments()]
    named = "'" not in name and list(client.search_runs(everywhere, f"attributes.run_name = '{name}'"))
    started: list[Run] = []
    if re.fullmatch(r"[0-9a-f]{1,32}", name):
        started = list(client.search_runs(everywhere, f"attributes.run_id LIKE '{name}%'"))
    return [run for run in started if run.info.run_id == name] or named or started


def _folder(client: MlflowClient, run: Run) -> Path:
    local = local_folder(run.info.artifact_uri, "record")
    if local is not None and local.is_dir():
        return local
    if local is not None or not client.list_artifacts(run.info.run_id, "record"):
        raise must(f"run {run.info.run_id}", "have a record", "none", "It ran with --record none.", NoRecord)
    copy = tempfile.mkdtemp(prefix="foxflow-record-")
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    return Path(client.download_artifacts(run.info.run_id, "record", copy))
