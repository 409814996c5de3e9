"""Where do two runs of one seed part, and why? Found by running, without anybody choosing steps.

Two runs with digests alone say which step differs first. Two more, stopped soon after it with their schedules
untouched, keep every byte around it, and go to `explain`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.errors import FoxflowError, must
from foxflow.experiments.rerun import Again, rerun, started

TRIES = 3
"""Pairs with dumps, at most: a race may strike elsewhere each time."""
AFTER = 4
"""Steps that the second pair goes on, at first: long enough to see a dormant difference wake."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The pair that tells most, and its explanation."""

    explanation: flow.Explanation
    run_a: str
    run_b: str
    step: int | None
    """The first step in which the two runs with digests alone differ; None where they are equal."""
    ran: int
    """Pairs of runs."""
    dumped: bool
    """The pair holds the bytes around its own first difference."""


def locate(seed: int, run_options: Sequence[str], folder: Path, note: Note) -> Located:
    """Run a seed twice, and where the runs differ twice again with every byte kept around the first difference.

    Args:
        seed: of the pair.
        run_options: of `foxflow run`, given to every run; dumps, names and tracking are locate's own.
        folder: for the records; made if absent.
        note: called with a line on what is going on.

    Raises:
        Mistake: a run refused its options, or they hold a seed.
        FoxflowError: a run died.
    """
    stray = [word for word in run_options if word.partition("=")[0] == "--seed"]
    if stray:
        raise must("foxflow locate", "take its seed from its own --seed", "two", "Write --seed once.")
    words = ["run", "--seed", str(seed), *run_options, "--track", "none", "--dump", "none"]
    pair = [started([*words, "--run-name", side], folder, {}) for side in "ab"]
    found = _explained(pair)
    first = found.comparison.first
    if found.comparison.verdict == flow.EQUAL or first is None:
        note(f"seed {seed}: {found.comparison.verdict}, {found.comparison.compared} buffers compared")
        return _located(found, pair, None, ran=1, dumped=False)
    note(f"seed {seed}: the runs part at {first.place}")
    return _closer(pair, found, folder, note)


def _closer(plain: Sequence[flow.Record], found: flow.Explanation, folder: Path, note: Note) -> Located:
    """Pairs with dumps around the first difference, wider each time that it lies elsewhere."""
    first = found.comparison.first
    if first is None:
        raise FoxflowError("there is no difference to come closer to")
    begin, end, stop = max(first.step - 1, 0), first.step + 1, first.step + AFTER
    for attempt in range(1, TRIES + 1):
        again = Again(stop_at=_stop(plain[0], first, stop), dump_steps=(begin, end))
        pair = [rerun(record, folder, f"{side}{attempt}", again) for record, side in zip(plain, "ab", strict=True)]
        closer = _explained(pair)
        at = closer.comparison.first
        if at is not None and begin <= at.step - (at.phase == flow.FINAL) < end:
            note(f"again with every byte of steps {begin} to {end - 1} kept: the runs part at {at.place}")
            return _located(closer, pair, first.step, ran=1 + attempt, dumped=True)
        where = "no difference this time" if at is None else f"the runs part at {at.place}"
        note(f"again with every byte of steps {begin} to {end - 1} kept: {where}; a wider window next")
        begin = max(min(begin, begin if at is None else at.step - 1), 0)
        end = max(end + AFTER, end if at is None else at.step + 1)
        stop = max(stop, end) + AFTER
    note(f"{TRIES} pairs with dumps did not part inside their windows; the first pair's digests are explained")
    return _located(found, plain, first.step, ran=1 + TRIES, dumped=False)


def _stop(record: flow.Record, first: flow.Where, stop: int) -> int | None:
    """Where the second pair ends; None where it must run to its end to reach the difference."""
    steps = int(json.loads(record.manifest)["config"]["steps"])
    return None if first.phase != flow.TRAIN else min(stop, steps)


def _explained(pair: Sequence[flow.Record]) -> flow.Explanation:
    from foxflow.explanation import explain

    a, b = pair
    return explain(a, b)


def _located(
    found: flow.Explanation, pair: Sequence[flow.Record], step: int | None, *, ran: int, dumped: bool
) -> Located:
    a, b = (record.path for record in pair)
    return Located(explanation=found, run_a=a, run_b=b, step=step, ran=ran, dumped=dumped)


def as_json(located: Located) -> dict[str, Any]:
    """The contract of `foxflow locate --json`: explain's, the pair that it speaks of, and the step found first."""
    from foxflow import explanation

    pair = {"run_a": located.run_a, "run_b": located.run_b}
    return {**explanation.as_json(located.explanation), **pair, "located_step": located.step}


def as_text(located: Located) -> str:
    """What a person reads."""
    from foxflow import explanation

    if located.step is None:
        return f"{explanation.as_text(located.explanation)}\nno differing step: {located.run_a} {located.run_b}"
    kept = "with every byte around it" if located.dumped else "digests alone"
    lines = [
        explanation.as_text(located.explanation),
        f"located   step {located.step}, by {located.ran} pairs of runs",
        f"records   {located.run_a} {located.run_b}  ({kept})",
        f"next      foxflow prove {located.run_a} {located.run_b}",
    ]
    return "\n".join(lines)
