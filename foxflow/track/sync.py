"""Sending what waits in the spool, once: runs whose store went away, and runs that were killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foxflow.track.journal import FOLDER, NAME, Journal
from foxflow.track.outbox import Outbox
from foxflow.track.store import store, store_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What became of one run of the spool."""

    run_id: str
    run_name: str
    parts: int
    """How many things were sent now."""
    waits: str | None
    """Why something still waits; None where MLflow has everything."""


def sync() -> tuple[Synced, ...]:
    """Send what waits in this folder's spool, to MLFLOW_TRACKING_URI or else to the store that each run began in.

    Runs that go on are left alone. A run that never said how it ended is ended as KILLED. May be killed and started
    again at any time; of two at once the second waits for the first.

    Raises:
        Mistake: MLFLOW_TRACKING_URI is no store.
    """
    if not FOLDER.is_dir():
        return ()
    with _alone():
        found = [_sent(folder) for folder in sorted(FOLDER.iterdir()) if (folder / NAME).is_file()]
    return tuple(one for one in found if one is not None)


@contextmanager
def _alone() -> Iterator[None]:
    with (FOLDER / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sent(folder: Path) -> Synced | None:
    """None where the run goes on."""
    journal = Journal.take(folder)
    if journal is None:
        return None
    if not journal.head:
        journal.remove()
        return None
    uri = store() if os.environ.get("MLFLOW_TRACKING_URI", "").strip() else journal.head["store"]
    outbox = Outbox(store_at(uri, journal.head["experiment"]), folder.name, journal)
    if not journal.ended():
        journal.append("end", {"status": "KILLED", "at_ms": journal.touched_ms})
    before = journal.counts()[0]
    outbox.send_waiting()
    sent = before - journal.counts()[0]
    return Synced(run_id=folder.name, run_name=journal.head["name"], parts=sent, waits=outbox.settle())
