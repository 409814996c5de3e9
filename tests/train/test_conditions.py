"""What the verdict tables of docs/trainer.md need of the trainer's structure, each shown on real runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from train.running import STEPS, TINY, Taken, at, changed, differing, places, trainer

from foxflow import flow
from foxflow.capture import DTYPES, host_bytes
from foxflow.config import Config, Recording
from foxflow.digest import digest
from foxflow.market.simulate import synthetic
from foxflow.train.dataflow import buffers
from foxflow.train.trainer import Trainer

GROUP = {group: {b.name for b in buffers(TINY) if b.group == group} for group in "ABCDEFGHIJKLMORWX"}
HEADS_OF_IQN = {"iqn.e_w", "iqn.e_b", "iqn.o_w", "iqn.o_b"}


def own_buffers(keys: set[str]) -> set[str]:
    """Weights, target copies, moments and gradients of some weights."""
    return {f"{kind}{key}" for kind in ("w_", "wt_", "adam_m.", "adam_v.", "grad_") for key in keys}


@pytest.fixture(scope="module")
def clean() -> tuple[Taken, Trainer]:
    made = trainer()
    return places(made.run()), made


@pytest.fixture(scope="module")
def other_quantiles() -> tuple[Taken, Trainer]:
    """As if the race had drawn other quantile fractions."""
    return changed(lambda made: made.prng["iqn_prng_state"].view(torch.int32).bitwise_xor_(0x5555))


@pytest.fixture(scope="module")
def other_outcome() -> tuple[Taken, Trainer]:
    """As if the outcome head had been initialised from the clock."""
    return changed(lambda made: made.learner.weights["outcome_w"].mul_(-1))


def array(taken: Taken, step: int, name: str, k: int | None = None) -> np.ndarray:
    b = taken[flow.TRAIN, step, name, k]
    dtype = {"f32": "<f4", "i32": "<i4", "u8": "u1"}[b.dtype]
    return np.frombuffer(b.data or b"", dtype).reshape(b.shape)


def test_other_quantile_fractions_move_nothing_but_iqn(
    clean: tuple[Taken, Trainer], other_quantiles: tuple[Taken, Trainer]
) -> None:
    """So bug 1 alone never reaches the trunk, the world, the priorities, the controllers or the evaluation."""
    moved = {name for _, _, name, _ in differing(clean[0], other_quantiles[0])}
    own = own_buffers(HEADS_OF_IQN) | {
        *("iqn_prng_state", "iqn_tau", "iqn_cos", "iqn_tau_target", "iqn_cos_target", "iqn_q_values"),
        *("iqn_q_target", "iqn_target", "row_loss_iqn", "grad_logits_iqn", "loss_iqn", "loss_total", "grad_norm"),
    }
    assert moved == own
    texts = [made.summaries(None)["eval_summary.json"] for _, made in (clean, other_quantiles)]
    assert texts[0] == texts[1]


def test_of_the_gradient_norms_only_that_of_iqn_moves(
    clean: tuple[Taken, Trainer], other_quantiles: tuple[Taken, Trainer]
) -> None:
    a, b = (array(taken, STEPS - 1, "grad_norm").view(np.uint32) for taken, _ in (clean, other_quantiles))
    assert (a != b).tolist() == [False, False, False, False, True, False, False, False]


def test_another_dueling_head_moves_nothing_but_dueling(clean: tuple[Taken, Trainer]) -> None:
    found = changed(lambda made: made.learner.weights["dueling.a_w"].mul_(-1))[0]
    own = own_buffers({"dueling.v_w", "dueling.v_b", "dueling.a_w", "dueling.a_b"}) | {
        *("dueling_q_composed", "dueling_target", "row_loss_dueling", "grad_logits_dueling"),
        *("loss_dueling", "loss_total", "grad_norm"),
    }
    moved = {name for _, _, name, _ in differing(clean[0], found)}
    assert moved <= own
    assert {"dueling_q_composed", "w_dueling.a_b", "wt_dueling.a_w", "loss_total"} <= moved


def test_another_outcome_head_stays_hidden_until_the_first_label_is_drawn(
    clean: tuple[Taken, Trainer], other_outcome: tuple[Taken, Trainer]
) -> None:
    """The second verdict of the note: K alone for two steps, then all of I, then everything."""
    found = differing(clean[0], other_outcome[0])
    for t in (0, 1):
        assert {n for phase, step, n, _ in found if (phase, step) == (flow.TRAIN, t)} == {"outcome_w", "outcome_logits"}
    assert at(found, 2, GROUP["G"] | GROUP["H"]) == set()
    assert at(found, 2, GROUP["I"]) == GROUP["I"]
    assert at(found, 2, GROUP["J"]) == {"grad_h_t_outcome", "grad_h_t_combined"}
    assert at(found, 2, GROUP["K"]) == {"outcome_w"}
    assert at(found, 2, GROUP["W"]) == set()
    assert {"sampled_h_t", "sampled_h_tp1"} <= at(found, 3, GROUP["G"])
    assert at(found, 3, GROUP["H"]) == GROUP["H"]
    assert at(found, 3, GROUP["J"]) == GROUP["J"]
    assert at(found, 3, GROUP["K"]) == {"outcome_w", "outcome_b"}
    assert at(found, 3, {"isv"}) == {"isv"}


def test_the_controllers_read_no_loss_and_neither_iqn_nor_outcome() -> None:
    inputs = {name.rstrip("-~") for b in buffers(TINY) if b.name == "isv" for name in b.inputs}
    assert inputs - {b.name for b in buffers(TINY) if b.row == 2} == {
        *("isv", "roll_pi_logits", "reward_raw", "done", "hold_steps")
    }


def test_the_combined_gradient_is_the_sum_over_five_heads_in_order(clean: tuple[Taken, Trainer]) -> None:
    for t in range(STEPS):
        parts = [array(clean[0], t, f"grad_h_t_{head}", 1) for head in ("q", "pi", "v", "frd", "outcome")]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        assert total.tobytes() == array(clean[0], t, "grad_h_t_combined", 1).tobytes()


def test_a_masked_row_gives_plus_zero_and_a_labelled_one_a_gradient(clean: tuple[Taken, Trainer]) -> None:
    labelled = masked = 0
    for t in range(STEPS):
        for k in range(TINY.K):
            labels, grad = (array(clean[0], t, name, k) for name in ("outcome_labels", "grad_h_t_outcome"))
            assert not any(grad[labels < 0].tobytes())
            assert all(any(row.tobytes()) for row in grad[labels >= 0])
            labelled, masked = labelled + (labels >= 0).sum(), masked + (labels < 0).sum()
    assert labelled > 0
    assert masked > 0


def test_labels_appear_with_the_first_trade_which_is_done_at_step_2(clean: tuple[Taken, Trainer]) -> None:
    assert [int(array(clean[0], t, "done").sum()) for t in range(3)] == [0, 0, TINY.B]
    drawn = [[array(clean[0], t, "outcome_labels", k) for k in range(TINY.K)] for t in range(3)]
    assert all((labels == -1).all() for step in drawn[:2] for labels in step)
    assert all((labels != -1).any() for labels in drawn[2])


@pytest.mark.parametrize("seed", [42, 43, 44])
def test_at_the_default_shape_the_first_trade_is_done_at_step_2_and_its_label_is_drawn(seed: int) -> None:
    config = Config(seed=seed, steps=200, eval_steps=0)
    recording = Recording(dump_groups="DK", dump_steps=(0, 3), dump_k=True)
    made = Trainer(config, recording, synthetic(seed, 4096, config.shape.L), torch.device("cpu"))
    taken = places(made.run(stop_at=3))
    assert [int(array(taken, t, "done").sum()) > 0 for t in range(3)] == [False, False, True]
    drawn = [max(array(taken, t, "outcome_labels", k).max() for k in range(config.shape.K)) for t in range(3)]
    assert [label >= 0 for label in drawn] == [False, False, True]


def test_adam_steps_once_a_step(clean: tuple[Taken, Trainer]) -> None:
    """Its running products would be squared if it stepped in every iteration."""
    betas = [array(clean[0], t, "adam_beta") for t in range(STEPS)]
    assert betas[0].tolist() == [1, 1]
    for before, after in pairwise(betas):
        assert after.tobytes() == (before * np.array([0.9, 0.999], np.float32)).tobytes()


def row_sums(x: np.ndarray) -> np.ndarray:
    """Over the batch rows, ascending from +0: B is below a chunk of 32."""
    total = np.zeros(x[0].size, np.float32)
    for row in x.reshape(len(x), -1):
        total = total + row
    return total


@pytest.mark.parametrize("head", ["q", "pi", "v", "frd", "outcome"])
def test_gradients_are_gathered_over_the_iterations_of_a_step_and_zeroed_before_the_next(
    clean: tuple[Taken, Trainer], head: str
) -> None:
    for t in range(STEPS):
        first, last = (row_sums(array(clean[0], t, f"grad_logits_{head}", k)) for k in range(TINY.K))
        assert array(clean[0], t, f"grad_{head}_b").tobytes() == (first + last).tobytes()


def test_scratches_are_reduced_to_gradients_once_a_step(clean: tuple[Taken, Trainer]) -> None:
    for t in range(STEPS):
        for scratch, gradient in (("cfc_grad_b_scratch", "grad_cfc_b"), ("attn_grad_q_scratch", "grad_attn_q")):
            assert array(clean[0], t, gradient).tobytes() == row_sums(array(clean[0], t, scratch)).tobytes()


def test_evaluation_leaves_everything_that_training_holds_as_it_was() -> None:
    made = trainer()
    run = made.run()
    for _ in range(STEPS):
        next(run)
    held = made._state() | made.env.state()
    before = {name: digest(host_bytes(x), DTYPES[x.dtype], tuple(x.shape)) for name, x in held.items()}
    *evaluated, last = run
    assert len(evaluated) == 4
    assert {b.buffer: b.digest for b in last.buffers if b.group != "X"} == before


def test_the_closing_snapshot_is_not_the_start_of_the_last_step(clean: tuple[Taken, Trainer]) -> None:
    started, closed = ((flow.TRAIN, STEPS - 1, "w_q_w", None), (flow.FINAL, STEPS, "w_q_w", None))
    assert clean[0][started].digest != clean[0][closed].digest
