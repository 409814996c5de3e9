"""The commands of continuous integration, and what its servers read: JUnit, a step summary."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

import typer

from foxflow import flow
from foxflow.cli import show
from foxflow.cli.arguments import Json, listed
from foxflow.errors import must

Junit = Annotated[Path | None, typer.Option("--junit", help="File for the answer as JUnit XML.")]


@dataclass(frozen=True, slots=True)
class Case:
    """One seed's answer."""

    name: str
    passed: bool
    says: str
    detail: str = ""


def announce(command: str, cases: Sequence[Case], junit: Path | None) -> None:
    """Write the answers where CI looks for them: a JUnit file if asked, GitHub's step summary if there is one.

    Raises:
        Mistake: a file can't be written.
    """
    if junit is not None:
        _write(junit, "--junit", junit_xml(command, cases))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _write(Path(summary), "GITHUB_STEP_SUMMARY", step_summary(command, cases), append=True)


def junit_xml(command: str, cases: Sequence[Case]) -> str:
    """One test suite, a test case for each seed."""
    failures = sum(not case.passed for case in cases)
    suite = ElementTree.Element("testsuite", name=command, tests=str(len(cases)), failures=str(failures), errors="0")
    for case in cases:
        element = ElementTree.SubElement(suite, "testcase", classname=command.replace(" ", "."), name=case.name)
        if case.passed:
            ElementTree.SubElement(element, "system-out").text = _printable(case.says)
        else:
            failure = ElementTree.SubElement(element, "failure", message=_printable(case.says))
            failure.text = _printable(case.detail)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def step_summary(command: str, cases: Sequence[Case]) -> str:
    """A Markdown table; what a run says is code, so it can't become markup."""
    rows = [f"| {case.name} | {'✅' if case.passed else '❌'} | `{_cell(case.says)}` |" for case in cases]
    return "\n".join([f"### {command}", "", "| seed | | answer |", "|---|---|---|", *rows, "", ""])


def _printable(text: str) -> str:
    """XML 1.0 has no control characters, not even escaped."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _cell(text: str) -> str:
    return " ".join(text.replace("`", "'").replace("|", "¦").split())


def _write(path: Path, option: str, text: str, *, append: bool = False) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise must(option, "name a file that can be written", str(error)) from error


def _note(line: str) -> None:
    typer.echo(line, err=True)


def check(
    context: typer.Context,
    seeds: Annotated[str, typer.Option(help="42,43 or 0:64.")] = "42",
    junit: Junit = None,
    as_json: Json = False,
) -> int:
    """Run each seed twice in fresh processes, compare and gate; other options are those of `foxflow run`."""
    from foxflow.config import seeds_of
    from foxflow.experiments import check as experiment

    pairs = experiment.check(seeds_of(seeds), context.args, _note)
    cases = [
        Case(
            f"seed {pair.seed}",
            pair.gate.passed,
            f"{pair.comparison.verdict}: {pair.gate.sentence}",
            "\n".join(f"{suite.name}: {fault}" for suite in pair.gate.suites for fault in suite.failed),
        )
        for pair in pairs
    ]
    announce("foxflow check", cases, junit)
    typer.echo(json.dumps(experiment.as_json(pairs)) if as_json else show.check_text(pairs))
    verdict = experiment.overall(pairs)
    if verdict == flow.EQUAL and not all(pair.gate.passed for pair in pairs):
        return 1
    return show.exit_code(verdict)


def golden(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Golden file, kept in the repository.")],
    seeds: Annotated[str, typer.Option(help="42,43 or 0:64.")] = "42",
    write: Annotated[bool, typer.Option("--write", help="Put the fingerprints into the file.")] = False,
    junit: Junit = None,
    as_json: Json = False,
) -> int:
    """Run each seed and hold its fingerprint against a golden file; other options are those of `foxflow run`."""
    from foxflow.config import seeds_of
    from foxflow.experiments import golden as experiment

    held = experiment.hold(file, seeds_of(seeds), context.args, _note, write=write)
    cases = [Case(f"seed {one.seed}", one.verdict == flow.EQUAL, f"{one.verdict}: {one.reason}") for one in held]
    announce("foxflow golden", cases, junit)
    lines = "\n".join(f"{case.name}: {case.says}" for case in cases)
    typer.echo(json.dumps(experiment.as_json(held)) if as_json else lines)
    return show.exit_code(experiment.overall(held))


def invariance(
    context: typer.Context,
    seed: Annotated[str, typer.Option(help="0 to 2^64 - 1.")] = "42",
    threads: Annotated[str, typer.Option(help="CPU threads, e.g. 1,2.")] = "",
    simd: Annotated[str, typer.Option(help="plain, avx2, avx512; what this processor has by default.")] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda; what is there by default.")] = "",
    python: Annotated[list[str] | None, typer.Option(help="Another interpreter, with its torch and foxflow.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the records are kept.")] = None,
    as_json: Json = False,
) -> int:
    """Run one config on every device, SIMD level and number of threads: one table, one fingerprint a cell.

    Other options are those of `foxflow run`; a short run where they state no size.
    """
    from foxflow.config import seed_of
    from foxflow.experiments import invariance as experiment
    from foxflow.experiments.prove import kept_in

    number, counts = seed_of(seed), [_count(word) for word in listed(threads)]
    cells = experiment.matrix(python or (), listed(device), counts, listed(simd))
    ran = experiment.invariance(cells, number, context.args, folder or kept_in(f"invariance-{number}"), _note)
    typer.echo(json.dumps(experiment.as_json(ran)) if as_json else experiment.as_text(ran))
    return show.exit_code(experiment.overall(ran))


def _count(word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= 1024:
        raise must("--threads", "be numbers from 1 to 1024, joined by commas", repr(word))
    return int(word)
