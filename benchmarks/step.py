"""A training step at each level of recording, and the same model and losses in eager PyTorch, side by side in one run.

`python -m benchmarks.step [OUT.json] --device cpu|cuda [--batch 128,4096] [--rounds 40]`

foxflow's side is the loop of `foxflow run` past the dumped steps: market, replay, learning, diag line and the record's
writer. The opponent (`benchmarks/eager`) is given its batches and keeps nothing; it is timed only if its losses,
gradient norms and change of weights are foxflow's. Contestants take turns, a few steps each; ratios are those of one
round.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from benchmarks import table
from benchmarks.eager import drawn
from benchmarks.table import Spread
from foxflow.config import PRESETS, Config, Recording, Shape
from foxflow.determinism import settings
from foxflow.experiments.run import Options, load_tape
from foxflow.record import Writer
from foxflow.train.trainer import Trainer

LEVELS = ("none", "light", "all")
EAGER = {"eager": False, "eager, quadratic": True}
"""Name -> whether Mamba-2 is in its quadratic form."""
WARM_ROUNDS = 3
TURN = {"cpu": 1, "cuda": 10}
"""Steps in a row of one contestant."""

Turn = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant at one batch size; times in seconds a step, ratios of medians of rounds."""

    batch: int
    name: str
    seconds: Spread
    against_none: Spread
    against_eager: Spread | None
    against_quadratic: Spread | None


def ours(name: str, config: Config, level: str, device: torch.device, folder: Path) -> Iterator[None]:
    """foxflow's loop, one step each time; its record goes below a folder."""
    recording = Recording(level=level, dump_groups="")
    tape = load_tape(Options(config=config, recording=recording))
    trainer = Trainer(config, recording, tape, device)
    facts = dict.fromkeys(("source", "data", "dataflow", "arithmetic", "command"), "")
    names = list(trainer.plan.names())
    manifest = facts | {
        "seed": config.seed,
        "config": config.as_dict(),
        "environment": settings.environment(device, config.gemm),
        "capture": {"names": names, "thinned": not names},
    }
    with Writer(folder / f"{name}-{config.shape.B}", manifest=manifest) as writer:
        for step in trainer.run():
            writer.write(step)
            yield


def contestants(shape: Shape, device: torch.device, steps: int, folder: Path) -> dict[str, Turn]:
    """Each as a turn of several steps; eager ones only after they have shown that they compute the same."""
    at_once, config = TURN[device.type], Config(seed=42, steps=steps, shape=shape)
    found = {level: turn(ours(level, config, level, device, folder), device) for level in LEVELS}
    step = drawn.draw(shape, device)
    rollout, batches = drawn.rollout(step), drawn.batches(step, tau=False)
    for name, quadratic in EAGER.items():
        drawn.check(step, quadratic)
        learner = drawn.learner(step, quadratic)
        found[name] = lambda learner=learner: [learner.step(rollout, batches) for _ in range(at_once)] and None
    return found


def turn(going: Iterator[None], device: torch.device) -> Turn:
    """Some steps of a loop."""
    return lambda: all(True for _ in islice(going, TURN[device.type])) and None


def measure(shape: Shape, device: torch.device, rounds: int) -> list[Row]:
    """Every contestant at one batch size."""
    with tempfile.TemporaryDirectory(prefix="foxflow-step-") as folder:
        turns = contestants(shape, device, (rounds + WARM_ROUNDS) * TURN[device.type], Path(folder))
        times = by_turns(turns, device, rounds)
    return [_row(shape.B, name, times) for name in times]


def by_turns(turns: dict[str, Turn], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Seconds a step of rounds in which every contestant has one turn, the first ones untimed."""
    times: dict[str, list[float]] = {}
    for number in range(rounds + WARM_ROUNDS):
        for name, going in turns.items():
            seconds = timed(going, device, fixed=name not in EAGER) / TURN[device.type]
            if number >= WARM_ROUNDS:
                times.setdefault(name, []).append(seconds)
    return times


def timed(going: Turn, device: torch.device, *, fixed: bool) -> float:
    """Seconds of one turn; foxflow's under the settings of `foxflow run`, the opponent's under torch's own."""
    torch.use_deterministic_algorithms(fixed)
    synchronize(device)
    began = time.perf_counter()
    going()
    synchronize(device)
    return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Wait for the device, where it runs by itself."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _row(batch: int, name: str, times: dict[str, list[float]]) -> Row:
    def against(other: str) -> Spread:
        return Spread.of([mine / theirs for mine, theirs in zip(times[name], times[other], strict=True)])

    eager = [None if name in EAGER else against(other) for other in EAGER]
    return Row(batch, name, Spread.of(times[name]), against("none"), *eager)


def main() -> None:
    """Measure at each batch size, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu", choices=sorted(TURN))
    parser.add_argument("--batch", default="128", help="batch sizes, e.g. 128,4096")
    parser.add_argument("--rounds", type=int, default=40)
    words = parser.parse_args()
    settings.fix()
    settings.keep_memory()
    device, rows = torch.device(words.device), []
    for batch in map(int, words.batch.split(",")):
        rows += measure(replace(PRESETS["default"], B=batch), device, words.rounds)
    head = ("contestant", "batch", "ms a step (quartiles)", "/ record none", "/ eager", "/ eager, quadratic")
    lines = [
        (r.name, r.batch, r.seconds.text(1e3), *(s.text(digits=3) if s else "" for s in
         (r.against_none, r.against_eager, r.against_quadratic)))
        for r in rows
    ]  # fmt: skip
    table.show(head, lines)
    table.write(words.out, words.device, rows)


if __name__ == "__main__":
    main()
