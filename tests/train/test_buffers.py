"""A run captures the dataflow table: every buffer, at its points, with its dtype, shape and digest."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest
from train.running import EVAL_STEPS, ROWS, STEPS, TINY, tiny, trainer

from foxflow import flow
from foxflow.config import DUMP_FLAGS, Recording
from foxflow.digest import digest
from foxflow.train.dataflow import Buffer, buffers

TABLE = buffers(TINY)
NOT_DRAWN = {"log_pi"}
"""Evaluation is greedy: it draws no action, so there is no probability of one."""

ZERO_AT_STEP_0 = {
    "the moments start at zero": {b.name for b in TABLE if b.name.startswith(("adam_m.", "adam_v."))},
    "biases start at zero": {
        *(f"w_trunk.{name}" for name in ("vsn_b", "in_b", "ln_a_bias", "ln_b_bias", "cfc_b")),
        *(f"w_{head}_b" for head in ("q", "pi", "v", "iqn.e", "iqn.o", "dueling.v", "dueling.a", "frd")),
        *(f"wt_{head}_b" for head in ("q", "v", "iqn.e", "iqn.o", "dueling.v", "dueling.a")),
        "outcome_b",
    },
    "the carry is zero": {"cfc_carry", "slot_carry", "sampled_carry", "cfc_grad_w_rec_scratch", "grad_cfc_w_rec"},
    "nobody has a position or an order": {
        *("pos", "entry_ticks", "cash_half_ticks", "pending_action", "rest_side", "rest_px_ticks", "hold_steps"),
        *("fills", "done", "trade_pnl_e4", "equity_half_ticks", "reward_raw", "reward_shaped"),
        *("slot_reward", "sampled_rewards"),
    },
    "no row is labelled": {
        *("row_loss_outcome", "grad_logits_outcome", "grad_h_t_outcome"),
        *("grad_outcome_w", "grad_outcome_b", "loss_outcome"),
    },
}


@pytest.fixture(scope="module")
def run() -> list[flow.Step]:
    return list(trainer().run())


def wanted(points: str, keep: Callable[[Buffer], bool] = lambda _: True) -> list[Buffer]:
    return [b for b in TABLE if b.at in points and keep(b)]


def seen(step: flow.Step) -> list[tuple[str, int | None]]:
    return [(b.buffer, b.k) for b in step.buffers]


def test_a_training_step_captures_the_whole_table_in_its_order(run: list[flow.Step]) -> None:
    inner = [(b.name, k) for k in range(TINY.K) for b in wanted("k")]
    after = [(b.name, None) for b in wanted("l")]
    for step in run[:STEPS]:
        before = [(b.name, None) for b in wanted("se") if b.group != "X" or step.step == 0]
        assert seen(step) == before + inner + after
        assert [b.order for b in step.buffers] == list(range(len(step.buffers)))


def test_an_evaluation_step_captures_rows_7_to_18(run: list[flow.Step]) -> None:
    rows = wanted("se", lambda b: 7 <= b.row <= 18 and b.name not in NOT_DRAWN)
    evaluated = run[STEPS:-1]
    assert [(s.phase, s.step) for s in evaluated] == [(flow.EVAL, STEPS + t) for t in range(EVAL_STEPS)]
    for step in evaluated:
        assert seen(step) == [(b.name, None) for b in rows]


def test_the_closing_snapshot_captures_rows_1_to_10_and_is_numbered_by_the_steps(run: list[flow.Step]) -> None:
    last = run[-1]
    assert (last.phase, last.step, last.diag) == (flow.FINAL, STEPS, None)
    assert seen(last) == [(b.name, None) for b in wanted("s", lambda b: b.row <= 10)]
    assert not any(b.data for b in last.buffers)


def test_a_diag_line_holds_the_last_digest_of_each_buffer_by_group(run: list[flow.Step]) -> None:
    for step in run[:-1]:
        wanted: dict[str, dict[str, str]] = defaultdict(dict)
        for b in step.buffers:
            wanted[b.group][b.buffer] = b.digest
        found = json.loads(step.diag or "")
        assert found["checksums"] == wanted
        assert list(found)[-2:] == ["checksums", "elapsed_s"]


def test_every_captured_buffer_has_the_group_dtype_and_shape_of_the_table(run: list[flow.Step]) -> None:
    stated = {b.name: (b.group, b.dtype, b.shape(TINY, ROWS)) for b in TABLE}
    captured = {(b.buffer, b.group, b.dtype, b.shape) for step in run for b in step.buffers}
    assert captured == {(name, *facts) for name, facts in stated.items()}


def test_every_buffer_is_nonzero_somewhere_in_the_run(run: list[flow.Step]) -> None:
    """Guards against «EQUAL because empty»; the tape is so short that even `wrap` is."""
    filled = {b.buffer for step in run for b in step.buffers if b.data and any(b.data)}
    assert {b.name for b in TABLE} - filled == set()


@pytest.mark.parametrize("reason", ZERO_AT_STEP_0)
def test_what_is_zero_at_step_0_is_so_for_a_reason(run: list[flow.Step], reason: str) -> None:
    data = defaultdict(bytes)
    for b in run[0].buffers:
        data[b.buffer] += b.data or b""
    assert {name for name in ZERO_AT_STEP_0[reason] if any(data[name])} == set()


def test_nothing_else_is_zero_at_step_0_but_a_flag_that_no_row_raised(run: list[flow.Step]) -> None:
    filled = {b.buffer for b in run[0].buffers if any(b.data or b"")}
    flags = {"wrap", "slot_done", "sampled_dones"}
    assert {b.name for b in TABLE} - filled - flags == set().union(*ZERO_AT_STEP_0.values())


def test_the_gradient_of_the_recurrent_weights_is_filled_once_there_is_a_carry(run: list[flow.Step]) -> None:
    scratch = [next(b for b in step.buffers if b.buffer == "cfc_grad_w_rec_scratch") for step in run[:STEPS]]
    assert [any(b.data or b"") for b in scratch] == [False] + [True] * (STEPS - 1)


def test_every_digest_is_that_of_the_dumped_bytes(run: list[flow.Step]) -> None:
    dumped = [b for step in run for b in step.buffers if b.data is not None]
    assert len(dumped) == sum(len(step.buffers) for step in run[:-1])
    assert [b.buffer for b in dumped if b.digest != digest(b.data, b.dtype, b.shape) or b.nbytes != len(b.data)] == []


def test_a_digest_is_not_that_of_bytes_with_one_bit_flipped(run: list[flow.Step]) -> None:
    b = next(b for b in run[3].buffers if b.buffer == "slot_win")
    assert b.data is not None
    flipped = bytes([b.data[0] ^ 1]) + b.data[1:]
    assert b.digest != digest(flipped, b.dtype, b.shape)


@pytest.mark.parametrize("name", ["slot_win", "slot_carry", "slot_log_pi"])
def test_the_running_digest_of_a_ring_moves_in_every_step_also_once_it_is_full(run: list[flow.Step], name: str) -> None:
    assert STEPS * TINY.B > TINY.C
    assert len({b.digest for step in run[:STEPS] for b in step.buffers if b.buffer == name}) == STEPS


def test_without_dump_k_only_the_last_iteration_keeps_its_bytes_and_all_are_digested() -> None:
    recording = Recording(dump_groups=DUMP_FLAGS["all"], dump_steps=(1, 2))
    steps = list(trainer(tiny(steps=3, eval_steps=0), recording).run())
    dumped = {(s.step, b.k) for s in steps for b in s.buffers if b.data is not None}
    assert dumped == {(1, None), (1, TINY.K - 1)}
    assert {(s.step, b.k) for s in steps for b in s.buffers if b.k is not None} == {
        (t, k) for t in range(3) for k in range(TINY.K)
    }


def test_only_the_groups_of_a_flag_are_dumped() -> None:
    recording = Recording(dump_groups=DUMP_FLAGS["per"], dump_steps=(0, 9))
    steps = list(trainer(tiny(steps=2, eval_steps=1), recording).run())
    assert {b.group for s in steps for b in s.buffers if b.data is not None} == set(DUMP_FLAGS["per"])


def test_mamba_states_are_captured_only_where_their_group_is_dumped() -> None:
    recording = Recording(dump_groups=DUMP_FLAGS["mamba2"], dump_steps=(1, 2))
    steps = list(trainer(tiny(steps=3, eval_steps=0), recording).run())
    found = {(s.step, b.buffer) for s in steps for b in s.buffers if b.buffer.endswith("_state")}
    assert {place for place in found if "mamba" in place[1]} == {(1, "mamba_a_state"), (1, "mamba_b_state")}


def test_a_light_record_leaves_out_groups_m_and_i_and_nothing_else() -> None:
    light = list(trainer(tiny(steps=1, eval_steps=0), Recording(level="light", dump_groups="")).run())
    assert {b.buffer for b in light[0].buffers} == {b.name for b in TABLE if b.group not in "MI"}


def test_record_none_captures_nothing_and_still_writes_the_line_of_each_step() -> None:
    steps = list(trainer(tiny(steps=2, eval_steps=1), Recording(level="none", dump_groups="")).run())
    assert [len(s.buffers) for s in steps] == [0] * 4
    assert [s.diag is not None for s in steps] == [True, True, True, False]


def test_a_step_holds_bytes_and_no_view_of_what_the_next_step_overwrites() -> None:
    made = trainer(tiny(steps=2, eval_steps=0))
    run = made.run()
    first = next(run)
    copies = {b.buffer: b.digest for b in first.buffers if b.k is None}
    next(run)
    assert {b.buffer: digest(b.data or b"", b.dtype, b.shape) for b in first.buffers if b.k is None} == copies
