"""Each kernel makes its recorded buffer again from its listed inputs alone, so no edge of the table is missing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

import pytest
import torch
from torch import Tensor
from train.running import STEPS, TINY, places, tiny, trainer

from foxflow import flow
from foxflow.capture import DTYPES, host_bytes
from foxflow.config import Config
from foxflow.digest import digest
from foxflow.errors import Mistake
from foxflow.market.instrument import ES
from foxflow.train.dataflow import buffers
from foxflow.train.kernels import Setting, inputs_of, replay, setting_of

TORCH = {name: dtype for dtype, name in DTYPES.items()}
SETTING = Setting(config=tiny(), instrument=ES, device=torch.device("cpu"))
TAPE = {"tape_book", "tape_ts"}

Where = tuple[str, int, str, int | None]


class Listed(Mapping[str, Tensor]):
    """Inputs by key that notes what is read; any other key is an error."""

    def __init__(self, inputs: dict[str, Tensor]) -> None:
        self._inputs, self.read = inputs, set[str]()

    def __getitem__(self, key: str) -> Tensor:
        self.read.add(key)
        return self._inputs[key]

    def __contains__(self, key: object) -> bool:
        return key in self._inputs

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    def bytes(self) -> dict[str, bytes]:
        return {key: host_bytes(x) for key, x in self._inputs.items()}


class Replayed:
    """A tiny run, and every captured buffer of it made again by its kernel."""

    def __init__(self) -> None:
        self.taken = places(trainer().run())
        self.made: dict[Where, Tensor] = {}
        self.changed: list[Where] = []
        self.read: dict[tuple[str, bool], set[str]] = defaultdict(set)
        self.different = [where for where in self.taken if where[2] not in TAPE and not self.repeats(where)]

    def setting(self, where: Where) -> Setting:
        return replace(SETTING, phase=where[0])

    def value(self, where: Where) -> Tensor:
        """The dumped bytes; the closing snapshot has none, so that what is read of it is made first."""
        b = self.taken[where]
        if b.data is None:
            return self.again(where)
        return torch.frombuffer(bytearray(b.data), dtype=TORCH[b.dtype]).reshape(b.shape)

    def inputs(self, where: Where) -> Listed:
        found = inputs_of(self.setting(where), where[2], where[1], where[3])
        return Listed({p.key: self.value((p.phase, p.step, p.name, p.k)) for p in found})

    def again(self, where: Where) -> Tensor:
        if where not in self.made:
            inputs, (_, step, name, k) = self.inputs(where), where
            before = inputs.bytes()
            self.made[where] = replay(self.setting(where), name, step, k, inputs)
            self.read[name, k is not None] |= {key.partition("@")[0] for key in inputs.read}
            if inputs.bytes() != before:
                self.changed.append(where)
        return self.made[where]

    def repeats(self, where: Where) -> bool:
        recorded, made = self.taken[where], self.again(where)
        stated = (DTYPES[made.dtype], tuple(made.shape))
        return digest(host_bytes(made), *stated) == recorded.digest and stated == (recorded.dtype, recorded.shape)


@pytest.fixture(scope="module")
def run() -> Replayed:
    return Replayed()


def test_every_captured_buffer_is_made_again_from_its_listed_inputs_alone(run: Replayed) -> None:
    assert run.different == []
    assert run.made.keys() == {where for where in run.taken if where[2] not in TAPE}
    assert {phase for phase, *_ in run.made} == {flow.TRAIN, flow.EVAL, flow.FINAL}


def test_every_listed_input_is_read(run: Replayed) -> None:
    """An edge that no kernel uses would hide a root behind a difference that has no part in it."""
    wanted = {(b.name, b.at == "k"): set(b.inputs) for b in buffers(TINY) if b.name not in TAPE}
    assert {row: inputs - run.read[row] for row, inputs in wanted.items() if inputs - run.read[row]} == {}


def test_no_kernel_changes_its_inputs(run: Replayed) -> None:
    assert run.changed == []


@pytest.mark.parametrize(
    ("name", "k", "key"),
    [
        ("w_q_w", None, "grad_q_w-"),
        ("isv", None, "w_trunk.vsn_w"),
        ("obs_win", None, "obs_win-"),
        ("reward_raw", None, "equity_half_ticks"),
        ("slot_win", None, "obs_next"),
        ("per_leaf", 1, "row_loss_q~"),
        ("iqn_cos", 0, "iqn_prng_state"),
        ("grad_ln_a_in", 1, "mamba_b_grad_x"),
        ("cfc_grad_w_in_scratch", None, "attn_ctx@0"),
        ("grad_iqn.e_w", None, "iqn_cos@1"),
        ("grad_vsn_w", None, "vsn_grad_w_scratch"),
    ],
)
def test_another_input_makes_another_buffer(run: Replayed, name: str, k: int | None, key: str) -> None:
    """Twin of the first test: a kernel that looked past its inputs would repeat here too."""
    where = (flow.TRAIN, 5, name, k)
    inputs = dict(run.inputs(where))
    inputs[key] = torch.roll(inputs[key], 1, 0) if key == "iqn_prng_state" else inputs[key] + 1
    made = replay(SETTING, name, 5, k, inputs)
    assert host_bytes(made) != run.taken[where].data


@pytest.mark.parametrize("name", ["obs", "w_q_w", "iqn_target", "grad_in_w", "per_is_weight"])
def test_a_kernel_without_one_of_its_inputs_stops(run: Replayed, name: str) -> None:
    """So that a missing edge shows: nothing else supplies what is not listed."""
    k = 0 if (flow.TRAIN, 5, name, 0) in run.taken else None
    inputs = dict(run.inputs((flow.TRAIN, 5, name, k)))
    del inputs[list(inputs)[-1]]
    with pytest.raises(KeyError):
        replay(SETTING, name, 5, k, inputs)


def test_a_run_starts_from_nothing_but_the_copies_and_the_tape_s_length() -> None:
    started = {b.name: inputs_of(SETTING, b.name, 0, None) for b in buffers(TINY) if b.starts is not None}
    read = {name: [p.name for p in found] for name, found in started.items() if found}
    accounts = {b.name for b in buffers(TINY) if b.row == 10}
    assert {name for name, of in read.items() if of == ["tape_book"]} == accounts
    assert {name for name in read if name not in accounts} == {b.name for b in buffers(TINY) if b.starts == "copy"}
    assert read["wt_q_w"] == ["w_q_w"]


def test_an_input_gathered_over_the_inner_loop_has_a_key_for_each_iteration() -> None:
    found = inputs_of(SETTING, "vsn_grad_b_scratch", 3, None)
    assert [(p.key, p.name, p.step, p.k) for p in found][:2] == [
        ("grad_vsn_out@0", "grad_vsn_out", 3, 0),
        ("grad_vsn_out@1", "grad_vsn_out", 3, 1),
    ]


def test_the_first_iteration_of_a_step_reads_the_last_one_of_the_step_before() -> None:
    found = {p.key: (p.step, p.k) for p in inputs_of(SETTING, "per_leaf", 3, 0)}
    assert found == {"per_leaf~": (2, 1), "row_loss_q~": (2, 1), "per_idx~": (2, 1), "per_max_prio-": (2, None)}


def test_evaluation_reads_weights_where_training_closed() -> None:
    found = inputs_of(replace(SETTING, phase=flow.EVAL), "roll_pi_logits", STEPS + 2, None)
    assert [(p.name, p.phase, p.step) for p in found] == [
        ("roll_h_t", flow.EVAL, STEPS + 2),
        ("w_pi_w", flow.FINAL, STEPS),
        ("w_pi_b", flow.FINAL, STEPS),
    ]


def test_the_setting_is_read_from_a_manifest() -> None:
    config = Config(seed=7, steps=3, preset="tiny", shape=TINY, specimens=("per_fence",))
    manifest = {"seed": 7, "config": config.as_dict(), "data": {"terms": asdict(ES)}}
    stated = json.loads(json.dumps(manifest))
    setting = Setting(config=config, instrument=ES, device=SETTING.device, phase=flow.EVAL)
    assert setting_of(stated, SETTING.device, flow.EVAL) == setting


@pytest.mark.parametrize(("name", "k"), [("tape_book", None), ("w_q_w", 0), ("nothing", None)])
def test_what_no_kernel_makes_is_refused(name: str, k: int | None) -> None:
    with pytest.raises(Mistake, match=name):
        replay(SETTING, name, 0, k, {})
