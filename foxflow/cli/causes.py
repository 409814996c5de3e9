"""The commands that find a cause: `explain` from two records, `prove` and `locate` by running again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from foxflow.cli import show
from foxflow.cli.arguments import Allow, Json, Run, listed, records

Folder = Annotated[Path | None, typer.Option(help="Where what the experiments find is kept.")]


def _note(line: str) -> None:
    typer.echo(line, err=True)


def explain(run_a: Run, run_b: Run, allow: Allow = "", as_json: Json = False) -> int:
    """Name every root of a difference: what differs though all that it was made from is EQUAL."""
    from foxflow import explanation

    a, b = records(run_a, run_b)
    found = explanation.explain(a, b, allow=listed(allow))
    typer.echo(json.dumps(explanation.as_json(found)) if as_json else explanation.as_text(found))
    return show.exit_code(found.comparison.verdict)


def prove(
    run_a: Run,
    run_b: Run,
    accuse: Annotated[
        str | None, typer.Option(help="Buffer whose producer is tried; the first root by default.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Replays of the accused producer.")] = 20,
    allow: Allow = "",
    folder: Folder = None,
    as_json: Json = False,
) -> int:
    """Try the cause that explain names by experiments: replays, reruns and a graft."""
    from foxflow.experiments import prove as experiment

    a, b = records(run_a, run_b)
    options = experiment.Options(accuse=accuse, repeats=repeats, folder=folder, allow=listed(allow))
    proof = experiment.prove(a, b, options, _note)
    typer.echo(json.dumps(experiment.as_json(proof)) if as_json else experiment.as_text(proof))
    return show.exit_code(proof.explanation.comparison.verdict)


def locate(
    context: typer.Context,
    seed: Annotated[str, typer.Option(help="0 to 2^64 - 1.")],
    folder: Folder = None,
    as_json: Json = False,
) -> int:
    """Run a seed twice, find the first differing step, keep every byte around it and explain.

    Other options are those of `foxflow run`.
    """
    from foxflow.config import seed_of
    from foxflow.experiments import locate as experiment
    from foxflow.experiments.prove import kept_in

    number = seed_of(seed)
    found = experiment.locate(number, context.args, folder or kept_in(f"seed-{number}"), _note)
    typer.echo(json.dumps(experiment.as_json(found)) if as_json else experiment.as_text(found))
    return show.exit_code(found.explanation.comparison.verdict)
