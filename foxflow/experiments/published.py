"""The report of two tracked runs, where MLflow's compare page and artifact viewer show it."""

from __future__ import annotations

from collections.abc import Iterable

from foxflow import flow
from foxflow.errors import FoxflowError

REPORT, PICTURE = "report.html", "divergence.png"


def publish(
    found: flow.Comparison, a: flow.Record, b: flow.Record, runs: tuple[str, str], gate: flow.Verdict | None
) -> dict[str, bytes]:
    """Make the two files of a comparison.

    Args:
        found: of `a` and `b`; it is explained where they are not EQUAL.
        a: one record.
        b: the other.
        runs: what the reader may type for them.
        gate: the gate's verdict, where it judged them.

    Returns:
        Contents by name, for `track.attach`.
    """
    from foxflow import explanation, report

    known = None if found.verdict == flow.EQUAL else explanation.explain(a, b)
    findings = report.Findings(explanation=known, verdict=gate, names=runs)
    return {REPORT: report.page(found, a, b, findings).encode(), PICTURE: report.picture(found)}


def attach(files: dict[str, bytes], runs: Iterable[str]) -> str | None:
    """Add the files to runs in MLflow.

    Returns:
        Which run lacks them, why, and how to make them again; None where all have them.
    """
    from foxflow import track

    for run in runs:
        if said := track.attach(run, files):
            return f"run {run} has no {REPORT} in MLflow: {said}; 'foxflow report' writes it"
    return None


def beside_twin(record: flow.Record, run: str, twin: str) -> str | None:
    """Compare a run with its twin and add the report to the run, which alone is changed.

    Returns:
        Why it has none; None where it has.
    """
    from foxflow import track
    from foxflow.comparison import compare
    from foxflow.record import open_record

    try:
        other = open_record(track.resolve(twin))
    except FoxflowError as error:
        return f"run {run} has no {REPORT}, for its twin can't be read: {error}"
    return attach(publish(compare(other, record), other, record, (twin, run), None), [run])
