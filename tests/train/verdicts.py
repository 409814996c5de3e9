"""The verdict tables of docs/trainer.md, and pairs of runs of the real trainer to hold against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from train.running import TINY, Place, differing, places

from foxflow import flow
from foxflow.config import Config, Recording, Shape
from foxflow.market.simulate import synthetic
from foxflow.train.dataflow import buffers
from foxflow.train.trainer import Trainer

IQN, OUTCOME = "iqn_race", "unseeded_outcome"
BOTH = (IQN, OUTCOME)
CASES = (BOTH, (OUTCOME,), (IQN,), ())
SEEDS = (42, 43, 44)
ROWS = 4096
WORLD, COLUMNS = "ABCDEF", "GHIJKW"
Launch = tuple[str, int]
ONLINE: frozenset[Launch] = frozenset(("iqn_cos", k) for k in range(TINY.K))
"""What iqn_q_values is made from in step 0; a CPU does not tear each launch, least of all a busy one."""
PAIRS = 40
"""How many pairs are drawn until the race has struck."""

GROUP = {group: frozenset(b.name for b in buffers(TINY) if b.group == group) for group in WORLD + COLUMNS}
TRUNK = {name for name in GROUP["W"] if name.startswith("w_trunk.")}
IQN_WEIGHTS = {name for name in GROUP["W"] if "iqn." in name}
ENCODED = {"sampled_h_t", "sampled_h_tp1", "sampled_log_pi_old"}
MIXED = {"grad_h_t_outcome", "grad_h_t_combined"}

Cells = dict[str, set[str] | frozenset[str]]

TABLE: dict[str, list[Cells]] = {
    OUTCOME: [
        {"K": {"outcome_w"}},
        {"K": {"outcome_w"}},
        {"K": {"outcome_w"}, "I": GROUP["I"], "J": MIXED},
        {
            "G": ENCODED,
            "H": GROUP["H"],
            "I": GROUP["I"],
            "J": GROUP["J"],
            "K": {"outcome_w", "outcome_b"},
            "W": TRUNK,
        },
    ],
    IQN: [{"H": {"iqn_q_values"}}, *({"H": {"iqn_q_values"}, "W": IQN_WEIGHTS} for _ in range(3))],
}
"""What differs at steps 0 to 3; both bugs at once show what each shows. A group that is not named is EQUAL."""
STEPS = 4
UNTOUCHED = {OUTCOME: 3, IQN: STEPS}
"""For how many steps groups A to F stay EQUAL."""

FIRST_MOVED = {
    (1, "w_iqn.o_b"): "adam_m.iqn.o_b",
    (1, "wt_iqn.o_b"): "adam_m.iqn.o_b",
    (3, "outcome_b"): "adam_m.outcome_b",
}
"""Small buffers at the step after their first gradient, and the moment that tells it."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A cell of the table that a pair does not show, and by which buffers."""

    step: int
    group: str
    missing: frozenset[str]
    unexpected: frozenset[str]


def departures(found: set[Place], specimens: tuple[str, ...]) -> list[Departure]:
    """Hold what differs in a pair against the table."""
    untouched = min([STEPS, *(UNTOUCHED[name] for name in specimens)])
    cells = [(t, g) for t in range(STEPS) for g in (WORLD if t < untouched else "") + COLUMNS]
    compared = [(t, g, at(found, t, g), wanted(t, g, specimens)) for t, g in cells]
    missing = [stated - seen - coincident(found, t) for t, _, seen, stated in compared]
    unexpected = [seen - stated - followers(found, t) for t, _, seen, stated in compared]
    return [
        Departure(t, g, frozenset(lacks), frozenset(more))
        for (t, g, _, _), lacks, more in zip(compared, missing, unexpected, strict=True)
        if lacks or more
    ]


def at(found: set[Place], step: int, group: str) -> set[str]:
    """Which buffers of a group differ at a training step, in whichever iteration."""
    return {name for phase, t, name, _ in found if (phase, t) == (flow.TRAIN, step) and name in GROUP[group]}


def wanted(step: int, group: str, specimens: tuple[str, ...]) -> set[str]:
    """A cell of the table."""
    return set().union(*(TABLE[name][step].get(group, set()) for name in specimens))


def followers(found: set[Place], step: int) -> set[str]:
    """What may differ too from step 3 on: rows that drew another action, or were drawn by other priorities.

    In iteration 0 of step 3 the priorities are those of step 2 and EQUAL; those that iteration 0 leaves behind are
    not, and a draw close to the boundary of two slots then falls into the other one.
    """
    if step < 3:
        return set()
    drawn = set(GROUP["G"]) | {"outcome_labels"} if (flow.TRAIN, step, "per_idx", 1) in found else set()
    acted = {"sampled_actions"} if (flow.TRAIN, step, "action", None) in found else set()
    return drawn | acted


def coincident(found: set[Place], step: int) -> set[str]:
    """What may come out EQUAL all the same: from m = v = 0 Adam moves by lr sign(g), but for the last bits.

    A few elements can then round alike in both runs. Their first moments differ, or they are not among these.
    """
    return {name for (t, name), m in FIRST_MOVED.items() if t == step and (flow.TRAIN, step, m, None) in found}


def config(specimens: tuple[str, ...], seed: int = 42, shape: Shape | None = None, **more: int) -> Config:
    """Two hundred steps at the default sizes, or at other ones."""
    sizes = {"steps": 200, "eval_steps": 0} | more
    if shape is None:
        return Config(seed=seed, specimens=specimens, **sizes)
    return Config(seed=seed, specimens=specimens, preset="tiny", shape=shape, **sizes)


def made(of: Config, device: str = "cpu", kind: type[Trainer] = Trainer) -> Trainer:
    """A trainer that keeps digests alone."""
    tape = synthetic(of.seed, ROWS, of.shape.L)
    return kind(of, Recording(dump_groups=""), tape, torch.device(device))


def pairs(make: Callable[[], Trainer], stop_at: int = STEPS) -> Iterator[set[Place]]:
    """What differs in one pair of runs after another."""
    while True:
        yield differing(*(places(make().run(stop_at=stop_at)) for _ in range(2)))


def struck(make: Callable[[], Trainer], stop_at: int = STEPS, torn: frozenset[Launch] = ONLINE) -> set[Place]:
    """What differs in the first pair of which the race tore one of some launches of step 0.

    Raises:
        AssertionError: it tore none in a good many pairs.
    """
    launches = {(flow.TRAIN, 0, name, k) for name, k in torn}
    for _ in range(PAIRS):
        runs = [make().run(stop_at=stop_at) for _ in range(2)]
        first = [next(run) for run in runs]
        if launches & differing(*(places(iter([step])) for step in first)):
            return differing(*(places(chain([step], run)) for step, run in zip(first, runs, strict=True)))
    raise AssertionError(f"the race tore none of {sorted(torn)} at step 0 in {PAIRS} pairs")
