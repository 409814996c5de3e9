"""The earlier run that a new one reproduces or departs from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foxflow.errors import must
from foxflow.track.store import Store, find_store, in_one_line

MANY = 20
"""Agreeing runs are counted up to here: MLflow hands out whole runs, which takes long by the thousand."""

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
    """How many earlier clean runs have the new run's fingerprint; `MANY` stands for that many or more."""


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
    """A search whose identity and fingerprint may stand in a query.

    Raises:
        Mistake: one of them is no digest.
    """
    for name, value in (("identity", wanted.identity), ("fingerprint", wanted.fingerprint or "0")):
        if not re.fullmatch(r"[0-9a-z:]+", value):
            raise must(name, "be a digest (0-9, a-z, ':')", repr(value))
    return wanted


def search(store: Store, wanted: Search, run_id: str | None) -> Twin | None:
    """As `find_twin`, in an open store."""
    if wanted.fingerprint is None:
        return None
    same = _clean(store, wanted, f"= '{wanted.fingerprint}'", run_id, MANY)
    found = same or _clean(store, wanted, "LIKE '%'", run_id, 1)
    if not found:
        return None
    twin = found[0]
    return Twin(
        run_id=twin.info.run_id,
        run_name=twin.info.run_name or "",
        fingerprint=twin.data.tags["foxflow.fingerprint"],
        agrees=bool(same),
        agree=len(same),
    )


def _clean(store: Store, search: Search, fingerprint: str, run_id: str | None, most: int) -> list[Run]:
    """Clean runs whose fingerprint is so, oldest first."""
    conditions = [
        f"tags.`foxflow.identity` = '{search.identity}'",
        "tags.`foxflow.clean` = 'true'",
        "attributes.status = 'FINISHED'",
        f"tags.`foxflow.fingerprint` {fingerprint}",
    ]
    if search.ended_by_ms is not None:
        conditions.append(f"attributes.end_time <= {search.ended_by_ms}")
    order = ["attributes.start_time ASC", "attributes.run_id ASC"]
    page = store.client.search_runs(
        [store.experiment_id], " AND ".join(conditions), order_by=order, max_results=most + 1
    )
    return [run for run in page if run.info.run_id != run_id][:most]
