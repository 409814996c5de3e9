"""The opponent in eager PyTorch computes what the trainer computes, and is not timed where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.eager import drawn
from foxflow.config import PRESETS

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def step() -> drawn.Drawn:
    return drawn.draw(PRESETS["tiny"], CPU)


@pytest.mark.parametrize("quadratic", [False, True])
def test_losses_gradient_norms_and_the_change_of_the_weights_are_the_trainer_s(
    step: drawn.Drawn, quadratic: bool
) -> None:
    apart = drawn.check(step, quadratic)
    assert max(apart.values()) < 1e-4
    assert {"rollout", "q", "outcome", "norm trunk", "norm iqn", "update"} <= set(apart)


@pytest.mark.parametrize(
    ("buffer", "names"),
    [("loss_iqn", "iqn"), ("grad_norm", "norm trunk"), ("roll_pi_logits", "rollout")],
)
def test_an_opponent_that_computes_something_else_is_not_timed(step: drawn.Drawn, buffer: str, names: str) -> None:
    other = replace(step, buffers=step.buffers | {buffer: step.buffers[buffer] * 1.01})
    with pytest.raises(drawn.Unequal, match=f"{names} must be within"):
        drawn.check(other, quadratic=False)


def test_a_change_of_the_weights_that_is_not_adam_s_is_seen(step: drawn.Drawn) -> None:
    moved = {name: x + 1e-4 for name, x in step.after.items()}
    with pytest.raises(drawn.Unequal, match="update must be within"):
        drawn.check(replace(step, after=moved), quadratic=False)
