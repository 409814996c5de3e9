"""Rings are digested by what each step writes; every few steps all their bytes are held against that."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from train.running import NO_DUMPS, STEPS, differing, places, tiny, trainer

from foxflow.errors import CorruptRecord
from foxflow.train.trainer import Trainer

SLOT = 5
"""Of a ring of 64: step 8 is the next to write it again."""


def verified(every: int, steps: int = STEPS) -> Trainer:
    return trainer(tiny(steps=steps), replace(NO_DUMPS, verify_every=every))


def broken(trainer: Trainer, at: int, name: str) -> None:
    """Run to a step, flip one bit of a ring, and go on to the end."""
    for step in trainer.run():
        if step.step == at:
            trainer.replay.slots[name][SLOT].view(-1).view(torch.uint8)[0] ^= 1


@pytest.mark.parametrize("name", ["slot_win", "slot_action", "slot_done"])
def test_a_flipped_bit_in_a_ring_is_named_at_the_next_check(name: str) -> None:
    with pytest.raises(CorruptRecord, match=f"train step 3, buffer {name}: its bytes are not those that steps wrote"):
        broken(verified(every=4), 1, name)


def test_the_last_step_of_training_is_always_checked() -> None:
    with pytest.raises(CorruptRecord, match=r"train step 6, buffer slot_carry"):
        broken(verified(every=100, steps=7), 4, "slot_carry")


def test_a_flipped_bit_is_named_though_its_slot_was_written_again() -> None:
    """What was taken out of the sum, flipped, is not what had come in."""
    with pytest.raises(CorruptRecord, match=r"train step 11, buffer slot_carry"):
        broken(verified(every=12), 1, "slot_carry")


def test_no_check_at_zero_and_none_moves_a_digest() -> None:
    assert differing(places(verified(0).run()), places(verified(1).run())) == set()
    broken(verified(0), 1, "slot_win")
