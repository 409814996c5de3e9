"""What the verdict tables of docs/trainer.md need of the trainer's structure, each shown on real runs."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from bits import fresh_process
from train.running import EVERYTHING, NO_DUMPS, STEPS, TINY, Taken, at, changed, differing, places, tiny, trainer

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
    assert {name for _, _, name, _ in differing(clean[0], found)} <= own


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


def without_time(diag: str | None) -> dict[str, object]:
    line = json.loads(diag or "{}")
    assert list(line)[-1] == "elapsed_s"
    return {key: value for key, value in line.items() if key != "elapsed_s"}


def test_stopping_early_changes_no_earlier_step() -> None:
    whole = list(trainer().run())
    cut = list(trainer().run(stop_at=5))
    assert [(s.phase, s.step) for s in cut] == [(flow.TRAIN, t) for t in range(5)]
    assert [s.buffers for s in cut] == [s.buffers for s in whole[:5]]
    assert [without_time(s.diag) for s in cut] == [without_time(s.diag) for s in whole[:5]]


def test_fewer_steps_are_another_schedule_unlike_stopping_early() -> None:
    """The twin of the test above: per_beta rises with the share of the steps that are done."""
    short, whole = (places(trainer(tiny(steps=n, eval_steps=0)).run(stop_at=3)) for n in (4, 12))
    found = {(t, name) for _, t, name, _ in differing(short, whole)}
    assert min(found)[0] == 2
    assert (2, "isv") in found


def test_dumps_change_no_digest() -> None:
    full, bare = (places(trainer(recording=r).run()) for r in (EVERYTHING, NO_DUMPS))
    states = {place for place in full if place[2] in ("mamba_a_state", "mamba_b_state")}
    assert full.keys() - states == bare.keys()
    assert {place: full[place].digest for place in bare} == {place: b.digest for place, b in bare.items()}


def test_seeds_differ_in_weights_streams_world_and_tape() -> None:
    a, b = (places(trainer(tiny(seed=seed, steps=1, eval_steps=0)).run()) for seed in (42, 43))
    found = at(differing(a, b), 0, {b.name for b in buffers(TINY)})
    assert {"w_trunk.vsn_w", "w_q_w", "outcome_w", "wt_v_w", "lob_cursor", "tape_book", "obs"} <= found
    assert {"act_prng_state", "per_prng_state", "iqn_prng_state"} <= found


FINGERPRINT = """
import tempfile
from dataclasses import asdict
import torch
from train.running import wide
from foxflow.config import DUMP_FLAGS, Recording
from foxflow.market.simulate import synthetic
from foxflow.record import Writer
from foxflow.train.trainer import Trainer
torch.set_num_threads({threads})
config = wide(seed=42, steps=3, eval_steps=1)
recording = Recording(dump_groups={groups!r}, dump_steps=(0, 2), dump_k={dump_k})
trainer = Trainer(config, recording, synthetic(42, 400, config.shape.L), torch.device("cpu"))
facts = dict.fromkeys(("source", "data", "dataflow", "environment", "arithmetic"), "")
capture = {{"names": list(trainer.plan.names()), "thinned": False}}
manifest = facts | {{"seed": 42, "config": config.as_dict(), "capture": capture}}
with tempfile.TemporaryDirectory() as folder, Writer(folder, manifest=manifest) as writer:
    for step in trainer.run():
        writer.write(step)
    print(torch.get_num_threads(), writer.fingerprint())
"""


def test_threads_and_dumps_have_no_part_in_the_fingerprint() -> None:
    """One thread without dumps and two threads with all of them, in fresh processes."""
    one = fresh_process(FINGERPRINT.format(threads=1, groups="", dump_k=False)).split()
    two = fresh_process(FINGERPRINT.format(threads=2, groups="ABCDEFGHIJKLMORWX", dump_k=True)).split()
    assert (one[0], two[0]) == ("1", "2")
    assert one[1].startswith("fx1:")
    assert one[1] == two[1]
