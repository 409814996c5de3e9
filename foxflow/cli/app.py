"""The commands. Each parses, calls a stage or an experiment, prints, and returns its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from foxflow import __version__
from foxflow.cli import buffers, causes, ci, report, show, stores
from foxflow.cli.arguments import (
    Allow,
    Fee,
    Json,
    Name,
    Run,
    Select,
    Tick,
    TickValue,
    Zone,
    listed,
    records,
)
from foxflow.cli.options import instrument_of, quick_sizes, run_options, words_of
from foxflow.config import VERIFY_EVERY
from foxflow.errors import must

app = typer.Typer(
    name="foxflow",
    help="Is a training run with the same seed the same run? Answered to the last bit.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise must("foxflow", "be given a command", "none", "See 'foxflow --help'.")


@app.command()
def run(
    context: typer.Context,
    seed: Annotated[str, typer.Option(help="0 to 2^64 - 1.")],
    quick: Annotated[bool, typer.Option("--quick", help="200 training and 50 evaluation steps.")] = False,
    data: Annotated[str, typer.Option(help="synthetic, synthetic:reverting, or a market file.")] = "synthetic",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    eval_steps: Annotated[int | None, typer.Option(help="Evaluation steps.")] = None,
    stop_at: Annotated[int | None, typer.Option(help="End after this many steps; schedules keep --steps.")] = None,
    preset: Annotated[str, typer.Option(help="default or tiny.")] = "default",
    levels: Annotated[int | None, typer.Option(help="Book levels that the model reads.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; bits do not depend on it.")] = None,
    dump: Annotated[str, typer.Option(help="per, mamba2, rl, backward (joined by commas), all or none.")] = "backward",
    dump_steps: Annotated[str, typer.Option(help="FIRST:END, the steps whose bytes are kept.")] = "0:4",
    dump_k: Annotated[bool, typer.Option("--dump-k", help="Keep the bytes of every iteration, not the last.")] = False,
    record: Annotated[str, typer.Option(help="all, light or none: which buffers are digested.")] = "all",
    track: Annotated[str, typer.Option(help="on or none: whether MLflow is told.")] = "on",
    strict_data: Annotated[bool, typer.Option("--strict-data", help="Refuse crossed or locked rows.")] = False,
    instrument: Name = None,
    tick: Tick = None,
    tick_value: TickValue = None,
    fee: Fee = None,
    zone: Zone = None,
    select: Select = None,
    verify_every: Annotated[
        int, typer.Option(help="Steps between full checks of the rings' sums; 0: none.")
    ] = VERIFY_EVERY,
    gemm: Annotated[str, typer.Option(help="own, or cublas: a product whose bits are its GPU's own.")] = "own",
    specimen: Annotated[str, typer.Option(help="Real bugs to switch on, joined by commas; docs/trainer.md.")] = "",
    run_name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    require_twin: Annotated[bool, typer.Option("--require-twin", help="Exit 1 when it departs from its twin.")] = False,
    as_json: Json = False,
) -> int:
    """Train, record every buffer, track in MLflow, and say whether an earlier run was the same."""
    from foxflow.experiments.run import perform

    train, evaluate = quick_sizes(quick, preset, steps, eval_steps)
    options = run_options(
        seed=seed, steps=train, eval_steps=evaluate, preset=preset, levels=levels, data=data, device=device,
        threads=threads, dump=dump, dump_steps=dump_steps, dump_k=dump_k, record=record, track=track,
        verify_every=verify_every, gemm=gemm, strict=strict_data, name=run_name, stop_at=stop_at,
        instrument=instrument_of(instrument, tick, tick_value, fee, zone), select=select, specimen=specimen,
        command=words_of(context),
    )  # fmt: skip
    with show.progress(f"seed {options.config.seed}") as step:
        outcome = perform(options, step)
    show.print_outcome(outcome, as_json)
    return show.twin_code(outcome) if require_twin else 0


@app.command()
def compare(run_a: Run, run_b: Run, allow: Allow = "", as_json: Json = False) -> int:
    """Compare two runs, buffer by buffer, byte by byte."""
    from foxflow import comparison

    a, b = records(run_a, run_b)
    found = comparison.compare(a, b, allow=listed(allow))
    typer.echo(json.dumps(comparison.as_json(found)) if as_json else comparison.as_table(found))
    return show.exit_code(found.verdict)


@app.command()
def gate(
    run_a: Run,
    run_b: Run,
    allow: Allow = "",
    docs: Annotated[Path | None, typer.Option(help="Folder for Great Expectations Data Docs.")] = None,
    suites: Annotated[Path | None, typer.Option(help="Folder of your own suites, in place of foxflow's.")] = None,
    as_json: Json = False,
) -> int:
    """Compare two runs, judge them by the Great Expectations suites, and add the Data Docs to those in MLflow."""
    from foxflow import comparison, track
    from foxflow import gate as room
    from foxflow.experiments.published import attach, judged

    if suites is not None and not suites.is_dir():
        raise must("--suites", "be a folder", str(suites), "Copy expectations/ and edit the copy.")
    a, b = records(run_a, run_b)
    found = comparison.compare(a, b, allow=listed(allow))
    tracked = [run for name in (run_a, run_b) if (run := track.run_id(name))]
    if tracked or docs:
        verdict, pages = judged(found, a, b, docs=docs, suites=suites)
        if unsent := attach(pages, {run: {} for run in tracked}):
            typer.echo(f"foxflow: {unsent}", err=True)
    else:
        verdict = room.judge(found, a, b, suites=suites)
    typer.echo(json.dumps(room.as_json(verdict)) if as_json else show.verdict_text(verdict))
    return 0 if verdict.passed else 1


@app.command()
def data(
    file: Annotated[str, typer.Argument(help="A market file, or either file of a LOBSTER pair.")],
    levels: Annotated[int | None, typer.Option(help="Levels to read.")] = None,
    strict_data: Annotated[bool, typer.Option("--strict-data", help="Refuse crossed or locked rows.")] = False,
    instrument: Name = None,
    tick: Tick = None,
    tick_value: TickValue = None,
    fee: Fee = None,
    zone: Zone = None,
    select: Select = None,
    as_json: Json = False,
) -> int:
    """Say what a market file holds."""
    from foxflow.market.data import describe

    traded = instrument_of(instrument, tick, tick_value, fee, zone)
    found = describe(file, levels=levels, strict=strict_data, select=select, instrument=traded)
    typer.echo(json.dumps(found) if as_json else show.fields_text(found))
    return 0


@app.command()
def verify(run_name: Run, as_json: Json = False) -> int:
    """Check a record against its own seals: SHA-256 of every file, digest of every dump."""
    from foxflow.record import verify as verify_record

    (record,) = records(run_name)
    faults = verify_record(record)
    result: dict[str, Any] = {"record": record.path, "complete": record.complete, "faults": list(faults)}
    typer.echo(json.dumps(result) if as_json else show.faults_text(result))
    return 3 if faults or not record.complete else 0


@app.command()
def doctor(as_json: Json = False) -> int:
    """Look at this machine: build, devices, versions, and every operator against its reference."""
    from foxflow.experiments.doctor import examine

    found = examine()
    typer.echo(json.dumps(found) if as_json else show.doctor_text(found))
    return 0 if found["ok"] else 1


PASSES_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Of commands that hand options on to `foxflow run`."""

app.command(context_settings=PASSES_ON)(ci.check)
app.command(context_settings=PASSES_ON)(ci.golden)
app.command(context_settings=PASSES_ON)(ci.invariance)
app.command()(causes.explain)
app.command()(causes.prove)
app.command()(report.report)
app.command()(buffers.show)
app.command()(stores.sync)
app.command()(stores.ui)
app.command(context_settings=PASSES_ON)(causes.locate)
