"""The earlier run that a new one reproduces or departs from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foxflow.errors import must
from foxflow.track.store import Store, find_store, in_one_line

if TYPE_CHECKING:
    from mlflow.entities import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """An earlier clean run of the same identity."""

    run_id: str
    run_name: str
    fingerprint: str
    agrees: bool
    """Its fingerprint equals the new run's."""
    agree: int
    """How many earlier clean runs have the new run's fingerprint."""
    others: int
    """How many have another."""


def find_twin(identity: str, fingerprint: str | None, *, run_id: str | None = None) -> Twin | None:
    """Find the oldest clean run that agrees, else the oldest clean one.

    Clean is a FINISHED run of the experiment with the tags `foxflow.identity` equal, `foxflow.clean` "true" and a
    fingerprint; specimens, dirty runs and records thinned by time have none of these and are nobody's twin.

    Args:
        identity: digest over seed, config, source, data, arithmetic and capture set, 0-9 a-z and ":" only.
        fingerprint: the new run's; None has no twin.
        run_id: the new run, which is not its own twin.

    Raises:
        Mistake: the identity is no digest, or the store can't be opened.
    """
    if not re.fullmatch(r"[0-9a-z:]+", identity):
        raise must("identity", "be a digest (0-9, a-z, ':')", repr(identity))
    opened = find_store()
    if opened is None or fingerprint is None:
        return None
    with in_one_line(opened.uri):
        clean = [(run, run.data.tags.get("foxflow.fingerprint")) for run in _clean(opened, identity)]
    marks = [(run, mark) for run, mark in clean if mark and run.info.run_id != run_id]
    if not marks:
        return None
    same = [run for run, mark in marks if mark == fingerprint]
    twin, mark = (same[0], fingerprint) if same else marks[0]
    return Twin(
        run_id=twin.info.run_id,
        run_name=twin.info.run_name or "",
        fingerprint=mark,
        agrees=bool(same),
        agree=len(same),
        others=len(marks) - len(same),
    )


def _clean(store: Store, identity: str) -> Iterator[Run]:
    """Oldest first."""
    wanted = (
        f"tags.`foxflow.identity` = '{identity}' AND tags.`foxflow.clean` = 'true' AND attributes.status = 'FINISHED'"
    )
    token: str | None = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id],
            wanted,
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return
