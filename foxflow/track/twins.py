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


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a twin must have."""

    identity: str
    """Digest over seed, config, source, data, arithmetic and capture set."""
    fingerprint: str | None
    ended_by_ms: int | None = None
    """Runs that ended later are not seen, so that a search after the fact finds what it would have found then."""


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
    wanted = checked(Search(identity=identity, fingerprint=fingerprint))
    opened = find_store()
    if opened is None:
        return None
    with in_one_line(opened.uri):
        return search(opened, wanted, run_id)


def checked(wanted: Search) -> Search:
    """A search whose identity may stand in a query.

    Raises:
        Mistake: the identity is no digest.
    """
    if not re.fullmatch(r"[0-9a-z:]+", wanted.identity):
        raise must("identity", "be a digest (0-9, a-z, ':')", repr(wanted.identity))
    return wanted


def search(store: Store, wanted: Search, run_id: str | None) -> Twin | None:
    """As `find_twin`, in an open store."""
    if wanted.fingerprint is None:
        return None
    clean = [(run, run.data.tags.get("foxflow.fingerprint")) for run in _clean(store, wanted)]
    marks = [(run, mark) for run, mark in clean if mark and run.info.run_id != run_id]
    if not marks:
        return None
    same = [run for run, mark in marks if mark == wanted.fingerprint]
    twin, mark = (same[0], wanted.fingerprint) if same else marks[0]
    return Twin(
        run_id=twin.info.run_id,
        run_name=twin.info.run_name or "",
        fingerprint=mark,
        agrees=bool(same),
        agree=len(same),
        others=len(marks) - len(same),
    )


def _clean(store: Store, search: Search) -> Iterator[Run]:
    """Oldest first."""
    wanted = (
        f"tags.`foxflow.identity` = '{search.identity}' AND tags.`foxflow.clean` = 'true'"
        " AND attributes.status = 'FINISHED'"
    )
    token: str | None = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id],
            wanted,
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
            page_token=token,
        )
        yield from (run for run in page if search.ended_by_ms is None or run.info.end_time <= search.ended_by_ms)
        token = page.token
        if not token:
            return
