"""The command that writes a comparison down for people: `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from foxflow.cli import show
from foxflow.cli.arguments import Allow, Json, Run, listed, records
from foxflow.errors import must

Out = Annotated[Path, typer.Option("--out", help="File for the page.")]
Proof = Annotated[Path | None, typer.Option("--proof", help="Folder that 'foxflow prove' kept for these two runs.")]


def report(
    run_a: Run,
    run_b: Run,
    out: Out = Path("report.html"),
    proof: Proof = None,
    allow: Allow = "",
    as_json: Json = False,
) -> int:
    """Compare, explain and judge two runs, and write all of it into one HTML file that needs no network."""
    from foxflow import explanation, gate
    from foxflow import report as room

    a, b = records(run_a, run_b)
    explained = explanation.explain(a, b, allow=listed(allow))
    findings = room.Findings(
        explanation=explained,
        proof=None if proof is None else room.read_proof(proof, explained),
        verdict=gate.judge(explained.comparison, a, b),
        names=(run_a, run_b),
    )
    _write(out, room.page(explained.comparison, a, b, findings))
    verdict = explained.comparison.verdict
    typer.echo(json.dumps({"report": str(out), "verdict": verdict}) if as_json else str(out))
    return show.exit_code(verdict)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise must("--out", "name a file that can be written", str(error)) from error
