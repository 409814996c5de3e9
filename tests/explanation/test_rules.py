"""The table of causes, a doctored record a line: which producer is accused, of what, by which rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from explanation.conftest import Explained
from explanation.making import Spot, at, other
from train.running import EVAL_STEPS, STEPS

from foxflow import flow

STARTS = [
    ("w_q_w", "init_head", "unseeded-init", "initialised unseeded"),
    ("w_trunk.in_w", "init_trunk", "unseeded-init", "initialised unseeded"),
    ("act_prng_state", "splitmix", "rng", "generator's state"),
    ("lob_cursor", "env_reset", "rng", "its reset drew differently"),
    ("tape_book", "load_tape", "input", "the loader or its file"),
    ("isv", "config", "environment", "configuration"),
    ("cfc_carry", "zeros", "stale-state", "something was left in it"),
    ("adam_beta", "ones", "stale-state", "something was left in it"),
]


@pytest.mark.parametrize(("buffer", "producer", "cause", "rule"), STARTS, ids=[s[0] for s in STARTS])
def test_what_differs_as_the_run_starts_accuses_what_it_starts_from(
    clean: list[flow.Step], doctored: Explained, buffer: str, producer: str, cause: str, rule: str
) -> None:
    (found,) = doctored(clean, at((0, buffer, None))).roots
    assert (found.where.buffer, found.producer, found.cause, found.confidence) == (buffer, producer, cause, "certain")
    assert rule in found.rule


KERNELS = [
    ((3, "row_loss_q", 1), "q_loss", "inputs EQUAL", "(3)"),
    ((3, "q_logits", 0), "head_fwd", "inputs EQUAL", "(2) H with G EQUAL"),
    ((2, "per_tree", 0), "per_rebuild", "inputs EQUAL", "(1) PER"),
    ((2, "sampled_rewards", 0), "replay_gather", "inputs EQUAL", "(1) G: gather"),
    ((2, "sampled_h_t", 1), "cfc_fwd", "inputs EQUAL", "encoder forward, not PER"),
    ((3, "grad_h_t_combined", 1), "combine", "inputs EQUAL", "(3) J with G and H EQUAL"),
    ((4, "vsn_grad_w_scratch", None), "vsn_bwd", "inputs EQUAL", "(4) I with J EQUAL"),
    ((4, "grad_vsn_w", None), "reduce_rows", "a reduced gradient differs", "(5) all EQUAL up to R: reduce"),
    ((4, "grad_in_w", None), "matmul", "a reduced gradient differs", "(5) all EQUAL up to the gradients"),
    ((4, "w_q_w", None), "adam", "all that updated it is EQUAL", "(5) all EQUAL, yet weights differ: Adam"),
    ((4, "wt_q_w", None), "polyak", "all that updated it is EQUAL", "(5)"),
    ((0, "wt_q_w", None), "copy", "all that updated it is EQUAL", "initialisation"),
    ((4, "isv", None), "controllers", "all that updated it is EQUAL", "A-F first: the RL loop"),
    ((4, "pos", None), "env_step", "all that updated it is EQUAL", "A-F first: the RL loop"),
    ((4, "action", None), "sample_action", "inputs EQUAL", "A-F first: the RL loop"),
    ((4, "iqn_prng_state", 0), "prng_advance", "inputs EQUAL", "A-F first: the RL loop"),
    ((4, "slot_reward", None), "replay_insert", "inputs EQUAL", "A-F first: the RL loop"),
]


@pytest.mark.parametrize(("spot", "producer", "rule", "case"), KERNELS, ids=[s[0][1] for s in KERNELS])
def test_what_differs_from_equal_inputs_accuses_its_kernel(
    clean: list[flow.Step], doctored: Explained, spot: Spot, producer: str, rule: str, case: str
) -> None:
    explained = doctored(clean, at(spot))
    (found,) = explained.roots
    assert (found.where.step, found.where.buffer, found.where.k) == spot
    assert (found.producer, found.cause, found.confidence, found.repeats) == (producer, "race", "likely", 1)
    assert rule in found.rule
    assert explained.case is not None
    assert case in explained.case


FOLLOWS = [
    ((3, "q_logits", 0), (3, "row_loss_q", 0)),
    ((3, "grad_logits_q", 0), (3, "grad_q_w", None)),
    ((3, "grad_logits_q", 1), (3, "grad_q_w", None)),
    ((3, "row_loss_q", 0), (3, "per_leaf", 1)),
    ((3, "row_loss_q", 1), (4, "per_leaf", 0)),
    ((3, "grad_q_w", None), (4, "w_q_w", None)),
    ((3, "iqn_prng_state", None), (3, "iqn_prng_state", 0)),
    ((3, "iqn_prng_state", 1), (4, "iqn_prng_state", None)),
    ((3, "lob_cursor", None), (3, "lob_book", None)),
    ((0, "tape_book", None), (7, "lob_book", None)),
    ((0, "w_q_w", None), (0, "wt_q_w", None)),
    ((3, "mamba_a_u", 1), (3, "mamba_a_grad_u", 1)),
]


@pytest.mark.parametrize(("first", "second"), FOLLOWS, ids=[f"{a[1]}-{b[1]}" for a, b in FOLLOWS])
def test_what_is_made_from_a_difference_is_no_root(
    clean: list[flow.Step], doctored: Explained, first: Spot, second: Spot
) -> None:
    (found,) = doctored(clean, at(first, second)).roots
    assert (found.where.step, found.where.buffer, found.where.k, found.repeats) == (*first, 1)


APART = [
    ((3, "q_logits", 0), (3, "row_loss_q", 1)),
    ((3, "row_loss_q", 0), (4, "per_leaf", 0)),
    ((3, "grad_q_w", None), (5, "w_q_w", None)),
    ((3, "iqn_prng_state", 0), (4, "iqn_prng_state", None)),
    ((3, "isv", None), (3, "lob_cursor", None)),
]


@pytest.mark.parametrize(("one", "two"), APART, ids=[f"{a[1]}-{b[1]}" for a, b in APART])
def test_a_difference_that_was_masked_on_the_way_does_not_explain_the_next(
    clean: list[flow.Step], doctored: Explained, one: Spot, two: Spot
) -> None:
    found = doctored(clean, at(one, two)).roots
    assert {(r.where.step, r.where.buffer, r.where.k) for r in found} == {one, two}


def test_roots_come_in_the_order_of_the_run(clean: list[flow.Step], doctored: Explained) -> None:
    spots = ((2, "q_logits", 1), (2, "q_logits", 0), (1, "loss_total", None), (2, "pos", None))
    found = doctored(clean, at(*spots)).roots
    assert [r.where.buffer for r in found] == ["loss_total", "pos", "q_logits"]
    assert found[2].repeats == 2


def test_a_kernel_that_strikes_again_is_a_race_for_certain(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((3, "action", None), (6, "action", None))).roots
    assert (found.cause, found.confidence, found.repeats) == ("race", "certain", 2)
    assert "begins anew at 2 places: steps 3, 6" in found.evidence


def test_a_difference_that_reaches_no_state_is_dormant_and_the_sentence_says_for_how_long(
    clean: list[flow.Step], doctored: Explained
) -> None:
    (found,) = doctored(clean, at((3, "loss_total", None))).roots
    assert found.wakes_at is None
    assert found.sentence.endswith("It is dormant: it has not woken within 9 steps.")


def test_a_difference_carried_on_alone_wakes_with_the_first_other_state(
    clean: list[flow.Step], doctored: Explained
) -> None:
    spots = [(t, "w_dueling.a_w", None) for t in range(2, 12)]
    found = doctored(clean, at(*spots, (6, "wt_dueling.a_w", None)), at((12, "w_dueling.a_w", None), phase=flow.FINAL))
    assert [(r.where.buffer, r.where.step, r.wakes_at) for r in found.roots] == [("w_dueling.a_w", 2, 5)]


def test_what_wakes_at_once_was_never_dormant(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((3, "grad_q_w", None), (4, "w_q_w", None))).roots
    assert found.wakes_at is None
    assert "dormant" not in found.sentence


def test_the_last_step_s_update_is_accused_by_the_closing_snapshot_and_evaluation_follows_from_it(
    clean: list[flow.Step], doctored: Explained
) -> None:
    evaluation = at(*((t, "roll_pi_logits", None) for t in range(STEPS, STEPS + EVAL_STEPS)), phase=flow.EVAL)
    (found,) = doctored(clean, at((STEPS, "w_pi_w", None), phase=flow.FINAL), evaluation).roots
    assert (found.where.phase, found.where.buffer, found.producer) == (flow.FINAL, "w_pi_w", "adam")
    assert f"{EVAL_STEPS} differing buffers behind it, the first roll_pi_logits at step {STEPS}" in found.evidence


def test_evaluation_on_equal_weights_accuses_its_own_kernel(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((STEPS + 1, "roll_h_t", None), phase=flow.EVAL)).roots
    assert (found.where.phase, found.where.step, found.producer) == (flow.EVAL, STEPS + 1, "encoder_fwd")
    assert found.sentence.startswith(f"roll_h_t (group M) differs at evaluation step {STEPS + 1} though all")


@pytest.mark.parametrize(
    ("buffer", "producer", "cause"),
    [("lob_cursor", "env_reset", "rng"), ("cfc_carry", "zeros", "stale-state"), ("isv", "controllers", "race")],
)
def test_evaluation_starts_anew_from_the_world_and_the_carry_and_goes_on_with_the_rest(
    clean: list[flow.Step], doctored: Explained, buffer: str, producer: str, cause: str
) -> None:
    (found,) = doctored(clean, at((STEPS, buffer, None), phase=flow.EVAL)).roots
    assert (found.where.phase, found.producer, found.cause) == (flow.EVAL, producer, cause)


def test_what_training_left_in_the_carry_does_not_explain_that_of_evaluation(
    clean: list[flow.Step], doctored: Explained
) -> None:
    trained = at((STEPS - 1, "cfc_carry", None))
    found = doctored(clean, trained, at((STEPS, "cfc_carry", None), phase=flow.EVAL)).roots
    assert [(r.where.phase, r.producer) for r in found] == [(flow.TRAIN, "carry_update"), (flow.EVAL, "zeros")]


def test_without_a_closing_snapshot_the_weights_of_evaluation_are_not_known(
    clean: list[flow.Step], doctored: Explained
) -> None:
    open_end = [step for step in clean if step.phase != flow.FINAL]
    (found,) = doctored(open_end, at((STEPS, "roll_pi_logits", None), phase=flow.EVAL)).roots
    assert (found.confidence, found.producer) == ("open", "head_fwd")
    assert "w_pi_w" in found.sentence


def test_without_a_closing_snapshot_a_differing_last_gradient_may_explain_evaluation(
    clean: list[flow.Step], doctored: Explained
) -> None:
    open_end = [step for step in clean if step.phase != flow.FINAL]
    last = at((STEPS - 1, "grad_pi_w", None))
    found = doctored(open_end, last, at((STEPS, "roll_pi_logits", None), phase=flow.EVAL)).roots
    assert [r.where.buffer for r in found] == ["grad_pi_w"]


def test_a_step_that_was_not_recorded_leaves_the_update_open(clean: list[flow.Step], doctored: Explained) -> None:
    thinned = [step for step in clean if step.step != 4]
    (found,) = doctored(thinned, at((5, "w_q_w", None))).roots
    assert (found.producer, found.confidence) == ("adam", "open")


def test_data_that_changes_though_nothing_writes_it_is_told_so(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((STEPS, "tape_book", None), phase=flow.FINAL)).roots
    assert (found.producer, found.cause) == ("load_tape", "unknown")
    assert "nothing writes the buffer" in found.rule


def ulp(array: np.ndarray) -> None:
    """Some elements one step from float to float apart, the largest among them."""
    largest = np.abs(array) >= np.median(np.abs(array))
    array.view(np.uint32)[largest] ^= 1


def shuffled(array: np.ndarray) -> None:
    array[:] = array[::-1].copy()


def sign(array: np.ndarray) -> None:
    array.view(np.uint32)[3] ^= 1 << 31


def far(array: np.ndarray) -> None:
    array += 1


OTHER_THREADS = {"threads": 2, "device": "cpu"}
OTHER_DEVICE = {"threads": 2, "device": "cuda"}
DUMPED = [
    (ulp, {}, "order", "of rounding size"),
    (ulp, {"environment": OTHER_THREADS}, "thread-count", "other threads"),
    (ulp, {"environment": OTHER_DEVICE}, "environment", "device differ"),
    (far, {"environment": OTHER_DEVICE}, "race", "nondeterministic"),
    (far, {"environment": OTHER_THREADS}, "race", "nondeterministic"),
    (shuffled, {}, "order", "in another order"),
    (sign, {}, "bit-flip", "one bit of one element"),
    (far, {}, "race", "nondeterministic"),
]


@pytest.mark.parametrize(
    ("change", "declared", "cause", "rule"), DUMPED, ids=[f"{d[0].__name__}-{d[2]}-{len(d[1])}" for d in DUMPED]
)
def test_dumps_tell_how_far_apart_and_so_why(
    dumped: list[flow.Step],
    doctored: Explained,
    change: Callable[[np.ndarray], None],
    declared: dict[str, object],
    cause: str,
    rule: str,
) -> None:
    (found,) = doctored(dumped, at((2, "grad_h_t_q", 1), change=change), **declared).roots
    assert (found.producer, found.cause, found.confidence) == ("head_bwd", cause, "likely")
    assert rule in found.rule
    assert any(line.startswith("grad_h_t_q at step 2, k 1: ") for line in found.evidence)


def test_one_bit_that_changes_twice_is_no_bit_flip(dumped: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(dumped, at((2, "grad_h_t_q", 1), (3, "grad_h_t_q", 0), change=sign)).roots
    assert (found.cause, found.confidence) == ("race", "certain")


def test_another_device_without_dumps_is_the_environment(clean: list[flow.Step], doctored: Explained) -> None:
    explained = doctored(clean, at((2, "grad_h_t_q", 1)), environment=OTHER_DEVICE)
    assert explained.roots[0].cause == "environment"
    assert 'environment.device: "cpu" in A, "cuda" in B' in explained.roots[0].evidence
    assert explained.ask == (
        "how far is grad_h_t_q apart: by rounding, by one bit, by more? Run both again with "
        "--dump backward --dump-k --dump-steps 2:3",
    )


def test_another_dtype_is_precision(clean: list[flow.Step], doctored: Explained) -> None:
    def retyped(step: flow.Step, b: flow.Captured) -> flow.Captured:
        return replace(other(b), dtype="i32") if (step.step, b.buffer, b.k) == (3, "q_logits", 0) else b

    (found,) = doctored(clean, retyped).roots
    assert (found.cause, found.confidence) == ("precision", "certain")
    assert "q_logits is f32 [8,9,5] in A, i32 [8,9,5] in B" in found.evidence


def test_weights_of_another_seed_are_not_called_unseeded(clean: list[flow.Step], doctored: Explained) -> None:
    explained = doctored(clean, at((0, "w_q_w", None)), seed=43)
    assert explained.comparison.verdict == flow.NOT_COMPARABLE
    (found,) = explained.roots
    assert (found.cause, found.rule) == ("rng", "the two runs have different seeds")


def test_a_kernel_under_another_source_is_not_called_a_race(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((2, "q_logits", 0)), source="fx1:" + "1" * 32).roots
    assert found.cause == "unknown"
    assert "source differ" in found.rule


def test_a_root_names_the_outputs_of_one_producer_together(clean: list[flow.Step], doctored: Explained) -> None:
    (found,) = doctored(clean, at((0, "w_q_b", None), (0, "w_v_w", None), (0, "w_q_w", None))).roots
    assert (found.where.buffer, found.also) == ("w_q_w", ("w_q_b", "w_v_w"))
