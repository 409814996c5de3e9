"""The four verdicts of docs/trainer.md on the real trainer at its default sizes, by digests alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from bits import DEVICES
from train.running import Place, Taken, differing, places
from train.verdicts import (
    BOTH,
    CASES,
    GROUP,
    IQN,
    OUTCOME,
    ROWS,
    SEEDS,
    STEPS,
    WORLD,
    at,
    config,
    departures,
    made,
    pairs,
    struck,
)

from foxflow import flow
from foxflow.config import Recording
from foxflow.market.simulate import synthetic
from foxflow.train.trainer import Trainer

ENOUGH = 5
"""One step more than the tables, for what parts in the fifth."""
SCALARS = {f"{kind}_{head}_b" for kind in ("w", "grad") for head in ("v", "dueling.v")}
"""Single elements, a few hundred ulps apart in a pair: now and then one rounds alike."""
TRAINED = {name for name in GROUP["W"] if name.startswith("w_")} - SCALARS

each_device = pytest.mark.parametrize("device", DEVICES)
each_seed = pytest.mark.parametrize("seed", SEEDS)


@cache
def pair(device: str, seed: int, specimens: tuple[str, ...]) -> set[Place]:
    def make() -> Trainer:
        return made(config(specimens, seed), device)

    steps = ENOUGH if OUTCOME in specimens else STEPS
    return struck(make, steps) if IQN in specimens else next(pairs(make, steps))


def named(specimens: tuple[str, ...]) -> str:
    return "+".join(specimens) or "none"


@each_device
@each_seed
@pytest.mark.parametrize("specimens", CASES, ids=named)
def test_a_pair_of_runs_differs_where_the_table_says_and_nowhere_else(
    device: str, seed: int, specimens: tuple[str, ...]
) -> None:
    assert departures(pair(device, seed, specimens), specimens) == []


@each_device
@each_seed
def test_a_clean_pair_differs_nowhere_at_all(device: str, seed: int) -> None:
    assert pair(device, seed, ()) == set()


@each_device
@each_seed
@pytest.mark.parametrize("specimens", [BOTH, (OUTCOME,)], ids=named)
def test_the_heads_part_a_step_after_the_trunk(device: str, seed: int, specimens: tuple[str, ...]) -> None:
    """At step 2 their own gradients are made from an EQUAL h and EQUAL logits; at step 3 no longer."""
    found = pair(device, seed, specimens)
    differ = {t: {name for phase, step, name, _ in found if (phase, step) == (flow.TRAIN, t)} for t in (2, 3)}
    gradients = {f"grad_{head}_{part}" for head in ("q", "pi", "v", "frd", "dueling.v", "dueling.a") for part in "wb"}
    assert differ[2] & (gradients | {"sampled_h_t", "q_logits", "pi_logits", "v_pred", "frd_logits"}) == set()
    assert gradients - SCALARS <= differ[3]
    assert at(found, 4, "W") & TRAINED == TRAINED
    assert {"outcome_w", "outcome_b"} <= at(found, 4, "K")


@each_device
@each_seed
def test_the_first_difference_of_step_3_is_in_the_weights_and_not_in_what_is_drawn(device: str, seed: int) -> None:
    """So the slots drawn in iteration 0 are EQUAL, and G holds more than its three only as a follower."""
    found = pair(device, seed, (OUTCOME,))
    assert at(found, 3, "W") != set()
    assert not {(flow.TRAIN, 3, name, 0) for name in ("per_leaf", "per_tree", "per_idx", "outcome_labels")} & found


def evaluated(device: str) -> tuple[Taken, bytes]:
    run = made(config((IQN,), steps=6, eval_steps=4), device)
    return places(run.run()), run.summaries(None)["eval_summary.json"]


@each_device
def test_the_race_alone_leaves_the_samplers_state_the_world_and_the_evaluation_as_they_were(device: str) -> None:
    (a, text_a), (b, text_b) = evaluated(device), evaluated(device)
    moved = {name for _, _, name, _ in differing(a, b)}
    assert {"iqn_cos", "iqn_q_values", "w_iqn.o_w"} <= moved
    assert "iqn_prng_state" not in moved
    assert moved & set().union(*(GROUP[g] for g in WORLD)) == set()
    assert {phase for phase, _, name, _ in differing(a, b) if "iqn" not in name} <= {flow.TRAIN}
    assert text_a == text_b
    assert b"total_pnl_usd" in text_a


@pytest.mark.parametrize("seed", [SEEDS[0]])
def test_nothing_in_the_table_is_equal_because_it_is_empty(seed: int) -> None:
    """The carry is zero at first, and a row has an outcome only once its trade is done."""
    of = config((), seed)
    recording = Recording(dump_groups="GHIJK", dump_steps=(0, 4), dump_k=True)
    run = Trainer(of, recording, synthetic(seed, ROWS, of.shape.L), torch.device("cpu"))
    empty: dict[int, set[str]] = {t: set() for t in range(4)}
    for step in run.run(stop_at=4):
        kept = [b for b in step.buffers if b.data is not None]
        filled = {b.buffer for b in kept if np.frombuffer(b.data or b"", np.uint8).any()}
        empty[step.step] = {b.buffer for b in kept} - filled
    nothing_yet = {"sampled_rewards", "sampled_dones", "outcome_b", "grad_h_t_outcome"}
    assert empty[0] == nothing_yet | {"cfc_grad_w_rec_scratch"}
    assert empty[1] <= nothing_yet
    assert empty[2] == {"outcome_b"}
    assert empty[3] == set()
