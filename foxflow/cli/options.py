"""From words on the command line to the options of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow import config
from foxflow.determinism.specimens import chosen
from foxflow.errors import must

if TYPE_CHECKING:
    import typer

    from foxflow.experiments.run import Options
    from foxflow.market.instrument import Instrument

SIZES = {"default": (2000, 200), "tiny": (12, 4)}
"""Training and evaluation steps of each preset; --quick takes QUICK."""
QUICK = (200, 50)


def quick_sizes(quick: bool, preset: str, steps: int | None, eval_steps: int | None) -> tuple[int, int]:
    """Training and evaluation steps, by what was asked for."""
    config.choice("--preset", preset, tuple(config.PRESETS))
    train, evaluate = QUICK if quick else SIZES[preset]
    return (train if steps is None else steps), (evaluate if eval_steps is None else eval_steps)


def run_options(  # noqa: PLR0913
    *,
    seed: str,
    steps: int,
    eval_steps: int,
    preset: str,
    levels: int | None,
    data: str,
    device: str,
    threads: int | None,
    dump: str,
    dump_steps: str,
    dump_k: bool,
    record: str,
    track: str,
    strict: bool,
    name: str | None,
    stop_at: int | None,
    instrument: Instrument | None = None,
    select: str | None = None,
    specimen: str = "",
    verify_every: int = config.VERIFY_EVERY,
    gemm: str = "own",
    command: tuple[str, ...] = (),
) -> Options:
    """Check every option of `foxflow run`, before anything heavy is loaded.

    Raises:
        Mistake: one of them can't be used; the message names it.
    """
    from foxflow.experiments.run import SYNTHETIC, Options

    if data not in SYNTHETIC:
        _file(data)
    elif instrument is not None or select is not None:
        raise must("--instrument, --tick and --select", "go with a market file", f"--data {data}")
    if threads is not None and not 1 <= threads <= 1024:
        raise must("--threads", "be 1 to 1024", threads)
    if name is not None and (not name.strip() or "/" in name or name in (".", "..")):
        raise must("--run-name", "be a name without '/'", repr(name), "It names a folder where nothing is tracked.")
    if not 0 <= verify_every <= config.MOST_STEPS:
        raise must("--verify-every", f"be 0 to {config.MOST_STEPS}", verify_every)
    settings = config.config_of(
        seed=config.seed_of(seed),
        steps=steps,
        eval_steps=eval_steps,
        preset=preset,
        levels=levels,
        data=data if data in SYNTHETIC else "file",
    )
    recording = config.Recording(
        level=config.choice("--record", record, config.LEVELS_OF_RECORD),
        dump_groups=config.dump_groups(dump),
        dump_steps=config.dump_steps(dump_steps),
        dump_k=dump_k,
        verify_every=verify_every,
    )
    return Options(
        config=replace(settings, specimens=chosen(specimen), gemm=config.choice("--gemm", gemm, config.GEMMS)),
        recording=recording,
        data=data,
        device=config.choice("--device", device, config.DEVICES),
        threads=threads,
        track=config.choice("--track", track, ("on", "none")) == "on",
        name=name,
        stop_at=stop_at,
        strict=strict,
        instrument=instrument,
        select=select,
        command=command,
    )


NOT_REPEATED = ("run_name", "as_json", "require_twin")
"""Options that speak of one run, not of what it computes."""


def words_of(context: typer.Context) -> tuple[str, ...]:
    """The words that make a command again, from any folder: options that were given, files by their full path."""
    words = [str(context.info_name)]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if value in (None, False, option.default) or option.name in NOT_REPEATED:
            continue
        path = option.name == "data" and Path(value).is_file()
        words += [option.opts[0]] if value is True else [option.opts[0], str(Path(value).resolve() if path else value)]
    return tuple(words)


def instrument_of(
    name: str | None, tick: str | None, tick_value: str | None, fee: str | None, zone: str | None
) -> Instrument | None:
    """What is traded, as options state it; None where they leave it to the file.

    Raises:
        Mistake: a built-in name goes with terms, terms lack tick or tick value, or one of them can't be used.
    """
    terms = {"--tick": tick, "--tick-value": tick_value, "--fee": fee, "--zone": zone}
    stated = [option for option, value in terms.items() if value is not None]
    if name is None and not stated:
        return None
    from foxflow.market import instrument as room

    if not stated:
        return room.instrument(str(name))
    if tick is None or tick_value is None:
        raise must(" and ".join(stated), "go with --tick and --tick-value", "one without the other")
    made = room.Terms(name=name or "custom", tick=tick, tick_value=tick_value, fee=fee or "0", zone=zone or "UTC")
    return room.make(made)


def _file(data: str) -> None:
    path = Path(data)
    if data.startswith("synthetic"):
        raise must("--data", "be synthetic, synthetic:reverting or a file", repr(data))
    if not path.exists():
        raise must("--data", "name a file", f"no such file: {data}", "Use --data synthetic for a generated tape.")
    if path.is_dir():
        raise must("--data", "name a file", f"the folder {data}", "Name the file in it.")
