"""The report of two tracked runs, where MLflow's compare page and artifact viewer show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foxflow import flow
from foxflow.errors import FoxflowError

REPORT, PICTURE, GATE = "report.html", "divergence.png", "gate"


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


def tags(found: flow.Comparison, other: str) -> dict[str, str]:
    """What a run's report says, as tags for the runs list and the compare page; `other` is the run compared with."""
    from foxflow import report

    first = {} if found.first is None else {"foxflow.first": report.place(found.first)}
    return {"foxflow.twin": other, "foxflow.verdict": found.verdict, **first}


def data_docs(folder: Path) -> dict[str, bytes]:
    """The pages of a gate's Data Docs by name, for `track.attach`; no page shows the site's fonts and pictures."""
    return {f"{GATE}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in folder.rglob("*.html")}


def attach(files: dict[str, bytes], runs: Mapping[str, dict[str, str]]) -> str | None:
    """Add the files to runs in MLflow.

    Args:
        files: of `publish` and `data_docs`.
        runs: the `tags` of each run.

    Returns:
        Which run lacks them, why, and how to make them again; None where all have them.
    """
    from foxflow import track

    for run, said_of_it in runs.items():
        if said := track.attach(run, files, said_of_it):
            return f"run {run} lacks its {REPORT} or tags in MLflow: {said}; 'foxflow report' writes the page"
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
    found = compare(other, record)
    return attach(publish(found, other, record, (twin, run), None), {run: tags(found, twin)})
