"""From a comparison and its two records to a verdict: every suite on every frame, and the numbers that must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from foxflow.errors import CorruptRecord
from foxflow.flow import EQUAL, Comparison, Record, Suite, Verdict
from foxflow.gate import frames
from foxflow.gate.checkpoint import Checkpoints
from foxflow.gate.frames import Frame
from foxflow.gate.suites import NAMES, check, folder

SHOWN = 3
"""Failures named in the sentence; the suites hold all."""


def judge(
    comparison: Comparison, a: Record, b: Record, *, docs: Path | None = None, suites: Path | None = None
) -> Verdict:
    """Judge whether two runs are the same run, by the suites `record`, `comparison`, `environment` and `buffers`.

    Passes only if the comparison is EQUAL, every suite ran all its checks on frames of the sizes that the manifests
    state, and none failed.

    Args:
        comparison: of `a` and `b`, in this order.
        a: one record.
        b: the other.
        docs: a folder for Great Expectations' Data Docs; None writes nothing.
        suites: a folder of other suites than the installed ones.

    Returns:
        The verdict; `buffers` is named only where bytes were dumped on both sides. A suite that is missing, empty or
        edited into something unknown is a failed gate, not an error.

    Raises:
        Mistake: `docs` can't be written.
    """
    where, checkpoints = suites or folder(), Checkpoints()
    evaluated, failed = dict.fromkeys(NAMES, 0), {name: list[str]() for name in NAMES}
    failed["comparison"] += _claims(comparison, a, b)
    dumped = 0
    try:
        for frame in _frames(a, b):
            ran, faults = check(frame, where, checkpoints)
            evaluated[frame.suite] += ran
            failed[frame.suite] += faults
            dumped += frame.rows if frame.suite == "buffers" else 0
    except CorruptRecord as error:
        failed["record"].append(f"corrupt: {error}")
    if dumped != (seen := sum(pairs for _, pairs, _ in comparison.dumps)):
        failed["buffers"].append(f"{dumped} pairs of dumped buffers were checked, the comparison saw {seen}")
    verdict = _verdict(comparison, evaluated, failed)
    if docs is not None:
        checkpoints.write_docs(docs, [verdict.sentence, *(fault for s in verdict.suites for fault in s.failed)])
    return verdict


def _verdict(comparison: Comparison, evaluated: dict[str, int], failed: dict[str, list[str]]) -> Verdict:
    """Every suite must have checked something, but `buffers` where nothing was dumped."""
    done = []
    for name in NAMES:
        if not evaluated[name] and not failed[name]:
            if name == "buffers":
                continue
            failed[name].append(f"the suite {name} checked nothing")
        done.append(Suite(name=name, evaluated=evaluated[name], failed=tuple(dict.fromkeys(failed[name]))))
    passed = not any(suite.failed for suite in done)
    return Verdict(passed=passed, sentence=_sentence(comparison, done), suites=tuple(done))


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


def _frames(a: Record, b: Record) -> Iterator[Frame]:
    sides = [frames.digests(record) for record in (a, b)]
    for record, data, name in zip((a, b), sides, ("A", "B"), strict=True):
        capture = json.loads(record.manifest).get("capture") or {}
        rows = _rows(record)
        parameters = {"rows": rows, "names": capture.get("names") or []}
        yield Frame(name=f"record {name}", suite="record", data=data, rows=rows, parameters=parameters)
        yield Frame(
            name=f"environment {name}",
            suite="environment",
            data=frames.environment(record),
            rows=1,
            parameters=_promised(record),
        )
        yield frames.files(record, f"files {name}")
    pairs = max(_rows(a), _rows(b))
    yield Frame(name="digests", suite="comparison", data=frames.paired(*sides), rows=pairs, parameters={"pairs": pairs})
    yield from frames.texts(a, b)
    yield from frames.dumped(a, b)


def _rows(record: Record) -> int:
    """Digest rows that the manifest states; a record that doesn't say has -1, which no frame has."""
    rows = json.loads(record.manifest).get("rows")
    return rows if isinstance(rows, int) else -1


def _promised(record: Record) -> dict[str, object]:
    """A run on foxflow's own arithmetic must have its switches on; of another loop they need only be recorded."""
    if json.loads(record.manifest).get("arithmetic"):
        return {"deterministic": ["true"], "float_contract": ["no fused or fast math"]}
    return {"deterministic": ["true", "false", "null"], "float_contract": ["no fused or fast math", "null"]}


def _sentence(comparison: Comparison, done: list[Suite]) -> str:
    faults = [fault for suite in done for fault in suite.failed]
    if not faults:
        checks = sum(suite.evaluated for suite in done)
        return f"The same run: {comparison.compared} pairs are equal to the last bit, {checks} expectations hold."
    first = comparison.first
    at = f" First at step {first.step}, buffer {first.buffer}." if first else ""
    more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
    return f"Not shown to be the same run: {'; '.join(faults[:SHOWN])}{more}.{at}"
