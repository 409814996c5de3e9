"""`compare`: two records to one Comparison, its verdict the first line of the table that applies."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from foxflow import flow
from foxflow.comparison import likeness
from foxflow.comparison.dumps import Corrupt, Dumps
from foxflow.comparison.pairing import pairs
from foxflow.comparison.rows import texts
from foxflow.comparison.tally import Tally
from foxflow.errors import CorruptRecord, must
from foxflow.opening import opened

Given = flow.Record | str | Path


def compare(a: Given, b: Given, *, allow: tuple[str, ...] = ()) -> flow.Comparison:
    """Compare two records exactly, by bytes, never by tolerances.

    Args:
        a: a record or its folder; the comparison follows its order.
        b: the other.
        allow: of seed, config, source, data, arithmetic those that may differ.

    Returns:
        The comparison; its verdict is the first that applies: NOT_COMPARABLE (a record contradicts itself, or the
        two were never meant to be equal), DIVERGED, INCOMPLETE (something is missing, or nothing was compared), EQUAL.

    Raises:
        Mistake: `allow` names something else.
        NoRecord: there is no record at a path.
    """
    if strange := [name for name in allow if name not in likeness.FIELDS]:
        raise must("allow", f"name {', '.join(likeness.FIELDS)}", ", ".join(strange))
    try:
        record_a, record_b = opened(a), opened(b)
    except CorruptRecord as error:
        return _unread(a, b, error)
    names, dumps = texts(), Dumps(record_a, record_b)
    tally = Tally(names, dumps)
    files: tuple[tuple[str, bool | None], ...] = ()
    try:
        for pair in pairs(record_a, record_b, names):
            tally.add(pair)
        tally.finish()
        files = likeness.files(record_a, record_b)
    except CorruptRecord as error:
        tally.finish()
        dumps.corrupt.append(_corrupt(error, tally.steps[-1].step if tally.steps else 0))
    found = _found(record_a, record_b, tally, dumps)
    return _judged(dataclasses.replace(found, files=files), dumps.corrupt, _lacks(record_a, record_b), allow)


def _found(a: flow.Record, b: flow.Record, tally: Tally, dumps: Dumps) -> flow.Comparison:
    """Everything but the verdict."""
    return flow.Comparison(
        a=a.path,
        b=b.path,
        verdict=flow.EQUAL,
        reason=None,
        first=tally.first.get(flow.DIVERGE) or tally.first.get(flow.MISSING),
        compared=tally.compared,
        differing=tally.differing,
        missing=tally.missing,
        steps=tuple(tally.steps),
        unlike=likeness.unlike(a, b, likeness.FIELDS),
        environment=likeness.unlike(a, b, ("environment",)),
        dumps=tuple((group, seen, differing) for group, (seen, differing) in dumps.seen.items() if seen),
        fingerprints=(json.loads(a.manifest).get("fingerprint"), json.loads(b.manifest).get("fingerprint")),
    )


def _corrupt(error: CorruptRecord, step: int) -> Corrupt:
    """A file that can't be read: its name stands for the buffer, the last step read for the place."""
    return Corrupt(error.record, error.where, flow.Where(step=step, k=None, group="", buffer=error.where))


def _unread(a: Given, b: Given, error: CorruptRecord) -> flow.Comparison:
    """The comparison of records of which one has a manifest that can't be read."""
    paths = [given.path if isinstance(given, flow.Record) else str(given) for given in (a, b)]
    nothing = flow.Comparison(
        a=paths[0],
        b=paths[1],
        verdict=flow.EQUAL,
        reason=None,
        first=None,
        compared=0,
        differing=0,
        missing=0,
        steps=(),
    )
    return _judged(nothing, [_corrupt(error, 0)], [], ())


def _lacks(a: flow.Record, b: flow.Record) -> list[str]:
    return [f"{record.path}: {words}" for record in (a, b) for words in record.missing]


def _judged(
    found: flow.Comparison, corrupt: list[Corrupt], lacks: list[str], allow: tuple[str, ...]
) -> flow.Comparison:
    """The verdict by the table of design: the first line that applies."""
    apart = [u for u in found.unlike if u[0].split(".")[0] not in allow]
    if corrupt:
        reason = f"corrupt: {corrupt[0].record}: {corrupt[0].what}"
        return dataclasses.replace(found, verdict=flow.NOT_COMPARABLE, reason=reason, first=corrupt[0].where)
    if apart:
        reason = "unlike " + ", ".join(f"{name} ({one}, {other})" for name, one, other in apart)
        return dataclasses.replace(found, verdict=flow.NOT_COMPARABLE, reason=reason)
    unequal = _unequal_files(found, lacks)
    if found.differing or unequal:
        words = None if found.differing else f"unequal {', '.join(unequal)}"
        return dataclasses.replace(found, verdict=flow.DIVERGED, reason=words)
    absent = [f"{found.missing} buffers have no partner"] if found.missing else []
    absent += [f"{name} lacks something on a side" for name, equal in found.files if equal is None]
    absent += [] if found.compared else ["nothing was compared"]
    if lacks or absent:
        return dataclasses.replace(found, verdict=flow.INCOMPLETE, reason="; ".join((*lacks, *absent)))
    return found


def _unequal_files(found: flow.Comparison, lacks: list[str]) -> list[str]:
    """Files that differ; a summary speaks of a whole run, so it counts only where nothing is missing."""
    whole = not lacks and not found.missing
    return [name for name, equal in found.files if equal is False and (whole or name == likeness.DIAG)]
