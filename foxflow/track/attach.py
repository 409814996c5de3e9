"""Adding files and tags to a run that is over, by way of its spool, so that a store which is away loses none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from foxflow.errors import Mistake, must
from foxflow.track.journal import FOLDER, NAME, Journal
from foxflow.track.outbox import Outbox
from foxflow.track.store import open_store, store
from foxflow.track.trouble import public


def attach(run_id: str, files: Mapping[str, bytes], tags: Mapping[str, str]) -> str | None:
    """Put files among a run's artifacts and tags on it, in place of those of the same names.

    A store that takes no tags may still take files, and the other way round: both are tried.

    Args:
        run_id: the run, over; what its spool still holds is sent as well.
        files: contents by name, e.g. report.html or gate/index.html.
        tags: e.g. `foxflow.verdict`.

    Returns:
        Why the store did not take them all, and how to send the rest from the spool; None where it has them.
    """
    try:
        journal = _journal(run_id)
    except Mistake as error:
        return str(error)
    if tags:
        journal.append("tags", dict(tags))
    for name, content in files.items():
        below = PurePosixPath(name).parent.as_posix()
        kept = journal.keep(name, content)
        journal.append("file", {"path": str(kept), "below": None if below == "." else below})
    try:
        opened = open_store()
    except Mistake as error:
        journal.close()
        return f"{error} What it lacks waits in {FOLDER / run_id}, 'foxflow sync' sends it."
    outbox = Outbox(replace(opened, experiment_id=journal.head["experiment"]), run_id, journal)
    outbox.send_waiting()
    return outbox.settle()


def _journal(run_id: str) -> Journal:
    """The run's own journal where it still waits, else a new one that won't end the run again.

    Raises:
        Mistake: the spool can't be written, or another process holds the run's journal.
    """
    folder = FOLDER.absolute() / run_id
    if (folder / NAME).is_file():
        taken = Journal.take(folder)
        if taken is None:
            raise must(f"run {run_id}", "be over", "one that a process still writes or sends", "Try again later.")
        if taken.head:
            return taken
        taken.remove()
    head = {"store": public(store()), "experiment": "", "name": "an ended run", "ended": True}
    return Journal.start(run_id, head)
