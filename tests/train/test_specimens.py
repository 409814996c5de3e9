"""Bugs switched on by name: two runs differ first in what the bug's own kernel makes; none is on by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
import torch
from train.running import NO_DUMPS, TINY, Taken, differing, places, tiny, trainer

from foxflow import flow
from foxflow.agent.parameters import draw
from foxflow.config import Recording
from foxflow.determinism.specimens import SPECIMENS, check_device, chosen
from foxflow.errors import Mistake
from foxflow.experiments.run import Options, perform
from foxflow.train.dataflow import buffers

ON_CPU = [name for name, specimen in SPECIMENS.items() if "cpu" in specimen.devices]
CUDA_ONLY = [name for name, specimen in SPECIMENS.items() if specimen.devices == ("cuda",)]
TRIES = 5
"""Pairs until one differs: tiny shapes leave little to race for."""


def taken(*names: str) -> Taken:
    return places(trainer(replace(tiny(), specimens=names), NO_DUMPS).run())


def pairs(name: str) -> Iterator[tuple[Taken, Taken]]:
    for _ in range(TRIES):
        yield taken(name), taken(name)


@pytest.mark.parametrize("name", ON_CPU)
def test_two_runs_with_a_specimen_differ_first_in_what_its_kernel_makes(name: str) -> None:
    a, found = next((a, found) for a, b in pairs(name) if (found := differing(a, b)))
    first = min((place for place in found if place[0] == flow.TRAIN), key=lambda place: (place[1], a[place].order))
    assert first[2] in SPECIMENS[name].buffers


def test_an_unseeded_weight_differs_alone_as_the_first_step_starts() -> None:
    a, b = taken("unseeded_outcome"), taken("unseeded_outcome")
    starts = {buffer.name for buffer in buffers(TINY) if buffer.at == "s"}
    assert {name for _, step, name, _ in differing(a, b) if step == 0 and name in starts} == {"outcome_w"}


def test_an_unseeded_weight_stays_inside_the_bound_of_a_seeded_one() -> None:
    a, b = (draw(TINY, 42, ("unseeded_outcome",)) for _ in range(2))
    bound = 0.01 * sqrt(6 / (TINY.H + 3))
    assert 0 < float((a["outcome_w"] - b["outcome_w"]).abs().max()) < 2 * bound
    seeded = draw(TINY, 42)
    assert {key for key in seeded if not torch.equal(seeded[key], a[key])} == {"outcome_w"}


def test_no_specimen_no_difference() -> None:
    assert differing(taken(), taken()) == set()


def test_the_quantiles_race_reaches_nothing_but_what_reads_them() -> None:
    """Their state ends as it should, and neither actions nor priorities read the head."""
    a, b = next((a, b) for a, b in pairs("iqn_race") if differing(a, b))
    reached = {name for _, _, name, _ in differing(a, b)}
    assert {name for name in reached if "iqn" not in name} <= {"grad_norm", "loss_total"}
    assert "iqn_prng_state" not in reached


@pytest.mark.parametrize("name", CUDA_ONLY)
def test_a_bug_of_gpus_is_refused_on_a_cpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options(config=replace(tiny(), specimens=(name,)), recording=Recording(), device="cpu", track=False)
    with pytest.raises(Mistake, match=f"--specimen {name} must run on cuda, for .*, got --device cpu"):
        perform(options, lambda done, total, phase: None)
    assert list(tmp_path.iterdir()) == []


def test_a_bug_of_the_heap_is_refused_on_a_gpu() -> None:
    """A GPU's allocator hands out the same bytes in every run."""
    with pytest.raises(Mistake, match="--specimen empty_scratch must run on cpu"):
        check_device(("empty_scratch",), "cuda")


@pytest.mark.parametrize("text", ["race", "iqn_race,", "iqn_race;per_fence", "IQN_RACE"])
def test_a_name_that_no_specimen_has_is_refused(text: str) -> None:
    with pytest.raises(Mistake, match=r"--specimen must name iqn_race, unseeded_outcome, .*, got '"):
        chosen(text)


def test_a_specimen_is_named_once() -> None:
    with pytest.raises(Mistake, match="--specimen must name each specimen once"):
        chosen("per_fence,per_fence")


def test_the_order_of_names_makes_no_other_run() -> None:
    assert (
        chosen("unseeded_outcome, iqn_race") == chosen("iqn_race,unseeded_outcome") == ("iqn_race", "unseeded_outcome")
    )
    assert chosen("") == ()


def test_the_catalogue_names_producers_and_buffers_of_the_dataflow() -> None:
    table = {buffer.name: buffer for buffer in buffers(TINY)}
    order = list(table)
    for specimen in SPECIMENS.values():
        made = [table[name] for name in specimen.buffers]
        assert specimen.kernel in {*made[0].producers, made[0].starts}
        assert sorted(specimen.buffers, key=order.index) == list(specimen.buffers)
