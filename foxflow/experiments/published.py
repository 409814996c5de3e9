"""The report of two tracked runs, where MLflow's compare page and artifact viewer show it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from foxflow import flow
from foxflow.errors import FoxflowError, must

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


def judged(
    found: flow.Comparison, a: flow.Record, b: flow.Record, *, docs: Path | None = None, suites: Path | None = None
) -> tuple[flow.Verdict, dict[str, bytes]]:
    """Judge a comparison and keep the gate's Data Docs.

    Args:
        found: of `a` and `b`, in this order.
        a: one record.
        b: the other.
        docs: a folder for a copy of the site; what it holds already stays.
        suites: of a user's own.

    Returns:
        The verdict, and the site's pages by name, for `attach`; none of them shows the site's fonts and pictures.

    Raises:
        Mistake: `docs` can't be written.
    """
    from foxflow.gate import judge

    with TemporaryDirectory(prefix="foxflow-docs-") as place:
        site = Path(place)
        verdict = judge(found, a, b, docs=site, suites=suites)
        if docs is not None:
            try:
                shutil.copytree(site, docs, dirs_exist_ok=True)
            except OSError as error:
                raise must("--docs", "name a folder that can be written", str(error)) from error
        pages = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*.html")}
        return verdict, {f"{GATE}/{name}": content for name, content in pages.items()}


def attach(files: Mapping[str, bytes], runs: Mapping[str, Mapping[str, str]]) -> str | None:
    """Add the files to runs in MLflow.

    Args:
        files: of `publish` and `judged`.
        runs: the `tags` of each run.

    Returns:
        Which runs lack them, and why; None where all have them. What the store did not take waits in the spool.
    """
    from foxflow import track

    what = ", ".join(sorted({name.partition("/")[0] for name in files}))
    said = [(run, track.attach(run, files, tagged)) for run, tagged in runs.items()]
    return "; ".join(f"run {run} lacks some of {what} in MLflow: {why}" for run, why in said if why) or None


def beside_twin(record: flow.Record, run: str, twin: str) -> str | None:
    """Compare a run with the twin that it departs from and add the report to the run, which alone is changed.

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
