"""From a comparison and its two records to a verdict: every suite on every frame, and the numbers that must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from foxflow.errors import CorruptRecord
from foxflow.flow import EQUAL, Comparison, Record, Suite, Verdict
from foxflow.gate import frames
from foxflow.gate.frames import Frame
from foxflow.gate.suites import NAMES, check, folder

SHOWN = 3
"""Failures named in the sentence; the suites hold all."""


def judge(
    comparison: Comparison, a: Record, b: Record, *, docs: Path | None = None, suites: Path | None = None
) -> Verdict:
    """Judge whether two runs are the same run, by the suites `record`, `comparison` and `environment`.

    Passes only if the comparison is EQUAL, every suite ran all its checks on frames of the sizes that the manifests
    state, and none failed.

    Args:
        comparison: of `a` and `b`, in this order.
        a: one record.
        b: the other.
        docs: a folder for Great Expectations' page of each result; None writes nothing.
        suites: a folder of other suites than the installed ones.

    Returns:
        The verdict; a suite that is missing, empty or edited into something unknown is a failed gate, not an error.
    """
    where = suites or folder()
    evaluated, failed = dict.fromkeys(NAMES, 0), {name: list[str]() for name in NAMES}
    failed["comparison"] += _claims(comparison, a, b)
    try:
        for frame in _frames(comparison, a, b):
            ran, faults = check(frame, where, docs)
            evaluated[frame.suite] += ran
            failed[frame.suite] += faults
    except CorruptRecord as error:
        failed["record"].append(f"corrupt: {error}")
    for name in NAMES:
        if not evaluated[name] and not failed[name]:
            failed[name].append(f"the suite {name} checked nothing")
    done = tuple(Suite(name=n, evaluated=evaluated[n], failed=tuple(dict.fromkeys(failed[n]))) for n in NAMES)
    return Verdict(passed=not any(s.failed for s in done), sentence=_sentence(comparison, done), suites=done)


def as_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as `foxflow gate --json` prints it."""
    return {
        "verdict": "PASS" if verdict.passed else "FAIL",
        "sentence": verdict.sentence,
        "suites": [{"name": s.name, "evaluated": s.evaluated, "failed": list(s.failed)} for s in verdict.suites],
    }


def _claims(comparison: Comparison, a: Record, b: Record) -> Iterator[str]:
    """What the comparison itself says against a pass, and whether it is of these records."""
    if comparison.verdict != EQUAL:
        yield f"the comparison is {comparison.verdict}{f' ({comparison.reason})' if comparison.reason else ''}"
    if (comparison.a, comparison.b) != (a.path, b.path):
        yield f"the comparison is of {comparison.a} and {comparison.b}, not of {a.path} and {b.path}"
    if comparison.compared < 1:
        yield "the comparison compared nothing"
    if comparison.fingerprints[0] != comparison.fingerprints[1]:
        yield "the fingerprints differ"
    stated = [_rows(a), _rows(b)]
    if stated != [comparison.compared] * 2:
        yield f"the comparison saw {comparison.compared} pairs, the manifests state {stated[0]} and {stated[1]}"


def _frames(comparison: Comparison, a: Record, b: Record) -> Iterator[Frame]:
    sides = [frames.digests(record) for record in (a, b)]
    for record, data, name in zip((a, b), sides, ("A", "B"), strict=True):
        capture = json.loads(record.manifest).get("capture") or {}
        parameters = {"rows": _rows(record), "names": capture.get("names") or []}
        yield Frame(name=f"record {name}", suite="record", data=data, parameters=parameters)
        yield Frame(
            name=f"environment {name}",
            suite="environment",
            data=frames.environment(record),
            parameters=_promised(record),
        )
        yield frames.files(record, f"files {name}")
    pairs = max(_rows(a), _rows(b))
    yield Frame(name="digests", suite="comparison", data=frames.paired(*sides), parameters={"pairs": pairs})
    yield from frames.texts(a, b)
    dumped = frames.dumped(a, b, sum(seen for _, seen, _ in comparison.dumps))
    if dumped is not None:
        yield dumped


def _rows(record: Record) -> int:
    """Digest rows that the manifest states; a record that doesn't say has -1, which no frame has."""
    rows = json.loads(record.manifest).get("rows")
    return rows if isinstance(rows, int) else -1


def _promised(record: Record) -> dict[str, object]:
    """A run on foxflow's own arithmetic must have its switches on; of another loop they need only be recorded."""
    if json.loads(record.manifest).get("arithmetic"):
        return {"deterministic": ["true"], "float_contract": ["no fused or fast math"]}
    return {"deterministic": ["true", "false", "null"], "float_contract": ["no fused or fast math", "null"]}


def _sentence(comparison: Comparison, done: tuple[Suite, ...]) -> str:
    faults = [fault for suite in done for fault in suite.failed]
    if not faults:
        checks = sum(suite.evaluated for suite in done)
        return f"The same run: {comparison.compared} pairs are equal to the last bit, {checks} expectations hold."
    first = comparison.first
    at = f" First at step {first.step}, buffer {first.buffer}." if first else ""
    more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
    return f"Not shown to be the same run: {'; '.join(faults[:SHOWN])}{more}.{at}"
