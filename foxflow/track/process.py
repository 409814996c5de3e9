"""Which process makes a run, so that the runs of dead ones can be told from those that go on."""

from __future__ import annotations

import socket
from pathlib import Path

from foxflow.track.store import Store

TAG = "foxflow.process"


def process(pid: int) -> str | None:
    """Host, pid and start time of a living process, so that a pid used again is not taken for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{socket.gethostname()}:{pid}:{fields[19]}"


def mark_killed(store: Store) -> None:
    """Mark the runs of this machine whose process died as KILLED."""
    here = socket.gethostname()
    for run in store.client.search_runs([store.experiment_id], "attributes.status = 'RUNNING'"):
        host, _, rest = run.data.tags.get(TAG, "").partition(":")
        pid = rest.partition(":")[0]
        if host == here and pid and process(int(pid)) != run.data.tags[TAG]:
            store.client.set_terminated(run.info.run_id, status="KILLED")
