"""What a person reads on the terminal, and the JSON of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from foxflow import flow

if TYPE_CHECKING:
    from foxflow.experiments.check import Pair
    from foxflow.experiments.run import Outcome


def exit_code(verdict: str) -> int:
    """The exit code of a verdict over two records."""
    return {flow.EQUAL: 0, flow.DIVERGED: 1}.get(verdict, 3)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda done, total, phase: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, phase: bar.update(task, completed=done, total=total, description=f"{title} {phase}")


def print_outcome(outcome: Outcome, as_json: bool) -> None:
    """Say what a run came to; what did not reach MLflow goes to stderr."""
    twin = outcome.twin
    for said in (outcome.unsent, outcome.unreported):
        if said:
            typer.echo(f"foxflow: {said}", err=True)
    if as_json:
        verdict = (
            None if twin is None else {"run_id": twin.run_id, "verdict": flow.EQUAL if twin.agrees else flow.DIVERGED}
        )
        result = {
            "run_id": outcome.run_id,
            "run_name": outcome.run_name,
            "record": outcome.record.path,
            "fingerprint": outcome.fingerprint,
            "steps": outcome.steps,
            "seconds": round(outcome.seconds, 3),
            "specimens": list(outcome.specimens),
            "twin": verdict,
        }
        typer.echo(json.dumps(result))
        return
    typer.echo(f"run          {outcome.run_name}" + (f"  ({outcome.run_id})" if outcome.run_id else ""))
    if outcome.specimens:
        typer.echo(f"specimens    {', '.join(outcome.specimens)}: bugs switched on, so this run is not clean")
    typer.echo(f"fingerprint  {outcome.fingerprint or 'none: nothing was digested'}")
    typer.echo(f"record       {outcome.record.path}  ({outcome.steps} steps in {outcome.seconds:.1f} s)")
    if outcome.run_id:
        typer.echo(f"twin         {twin_sentence(outcome)}")
        typer.echo(f"look at it   foxflow ui {outcome.run_id[:8]}")


def twin_sentence(outcome: Outcome) -> str:
    """«same as run …», «departs from run …» or «first of its kind»."""
    twin = outcome.twin
    if twin is None and outcome.unsent:
        return "not known: the store did not answer"
    if twin is None:
        return "none yet: the first clean run of this seed, config, source and data"
    from foxflow.track.twins import MANY

    if twin.agrees:
        return f"same as run {twin.run_id[:8]} ({twin.agree + 1}{' or more' * (twin.agree >= MANY)} runs agree)"
    return f"departs from run {twin.run_id[:8]}: foxflow compare {twin.run_id[:8]} {(outcome.run_id or '')[:8]}"


def twin_code(outcome: Outcome) -> int:
    """The exit code of a run that must not depart from its twin; 3 where the store did not say whether it does."""
    if outcome.twin is None:
        return 3 if outcome.unsent else 0
    return 0 if outcome.twin.agrees else 1


def verdict_text(verdict: flow.Verdict) -> str:
    """The gate's answer, a line a suite."""
    lines = [f"{'PASS' if verdict.passed else 'FAIL'}  {verdict.sentence}"]
    for suite in verdict.suites:
        lines.append(f"  {suite.name}: {suite.evaluated} expectations, {len(suite.failed)} failed")
        lines += [f"    {failed}" for failed in suite.failed]
    return "\n".join(lines)


def check_text(pairs: Sequence[Pair]) -> str:
    """A line a seed."""
    return "\n".join(
        f"seed {pair.seed}  {pair.comparison.verdict}  gate {'PASS' if pair.gate.passed else 'FAIL'}"
        f"  {pair.comparison.fingerprints[0]}  {pair.run_a} {pair.run_b}"
        for pair in pairs
    )


def fields_text(fields: dict[str, Any]) -> str:
    """A line a field."""
    return "\n".join(f"{name:14} {value}" for name, value in fields.items())


def faults_text(result: dict[str, Any]) -> str:
    """What `verify` found."""
    if result["faults"]:
        return "\n".join(result["faults"])
    return (
        f"{result['record']}: sound"
        if result["complete"]
        else f"{result['record']}: incomplete, what is there is sound"
    )


def doctor_text(found: dict[str, Any]) -> str:
    """Facts, then a line an operator."""
    lines = [f"{name:14} {value}" for name, value in found.items() if name not in ("operators", "ok")]
    lines += [
        f"{'ok' if op['ok'] else 'FAIL':5}{op['name']:24} {op['device']:5} error {op['error']:.2e} <= {op['bound']:.0e}"
        for op in found["operators"]
    ]
    return "\n".join(lines)
