"""The opponent's inputs, taken from a recorded step of foxflow's trainer, and the proof that both compute the same.

Everything is read from the dumps of two steps in a row, so nothing but the trainer's public face is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.eager.learner import GROUPS, Batch, Coefficients, Learner, Rollout
from benchmarks.eager.model import place
from foxflow import flow
from foxflow.agent.parameters import TARGETS, table
from foxflow.config import Config, Recording, Shape
from foxflow.experiments.run import Options, load_tape
from foxflow.reference.heads import iqn_tau_cos
from foxflow.train.table import target_name, weight_name
from foxflow.train.trainer import Trainer

STEP = 6
"""The step that is taken: trades have closed, labels are there, Adam has moments."""
DUMPED = "ABCDEGKLORW"
TOLERANCE, UPDATE_TOLERANCE = 1e-3, 2e-2
"""Relative, of losses and gradient norms; of what Adam changes, where a gradient near 0 moves a whole step."""
NUMPY = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "u32": np.uint32, "i64": np.int64}


class Unequal(Exception):
    """The opponent does not compute what foxflow computes, so there is nothing to time."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One step of foxflow: what it started from, drew and came to, by buffer name, the inner ones by (name, k)."""

    shape: Shape
    buffers: dict[str, Tensor]
    inner: dict[tuple[str, int], Tensor]
    after: dict[str, Tensor]
    """Weights one step later."""


def draw(shape: Shape, device: torch.device, seed: int = 42) -> Drawn:
    """Run foxflow's trainer up to `STEP` and keep that step's bytes."""
    config = Config(seed=seed, steps=200, shape=shape)
    recording = Recording(dump_groups=DUMPED, dump_steps=(STEP, STEP + 2), dump_k=True)
    tape = load_tape(Options(config=config, recording=recording))
    *_, here, later = Trainer(config, recording, tape, device).run(stop_at=STEP + 2)
    buffers = {b.buffer: tensor(b, device) for b in here.buffers if b.data is not None and b.k is None}
    inner = {(b.buffer, b.k): tensor(b, device) for b in here.buffers if b.data is not None and b.k is not None}
    after = {b.buffer: tensor(b, device) for b in later.buffers if b.data is not None and b.group in "WK"}
    return Drawn(shape, buffers, inner, after)


def tensor(b: flow.Captured, device: torch.device) -> Tensor:
    """A dumped buffer as a tensor."""
    return torch.from_numpy(np.frombuffer(b.data or b"", NUMPY[b.dtype]).reshape(b.shape).copy()).to(device)


def learner(drawn: Drawn, quadratic: bool) -> Learner:
    """The opponent with foxflow's weights, targets and moments as the step starts."""
    isv = drawn.buffers["isv"].tolist()
    coefficients = Coefficients(lr=3e-4 * isv[0], entropy=isv[1], gamma=isv[2])
    made = Learner(drawn.shape, drawn.buffers["isv"].device, coefficients, quadratic)
    parameters, targets = dict(made.model.named_parameters()), dict(made.targets.named_parameters())
    for weight in table(drawn.shape):
        name = place(weight.key)
        parameters[name].data.copy_(turned(drawn.buffers[weight_name(weight.key)], name))
        moments = {
            moment: torch.empty_like(parameters[name]).copy_(turned(drawn.buffers[f"{ours}.{weight.key}"], name))
            for moment, ours in (("exp_avg", "adam_m"), ("exp_avg_sq", "adam_v"))
        }
        step = torch.tensor(float(STEP), device=parameters[name].device)
        made.optimizer.state[parameters[name]] = {"step": step, **moments}
        if weight.group in TARGETS:
            targets[name].data.copy_(turned(drawn.buffers[target_name(weight.key)], name))
    return made


def turned(x: Tensor, name: str) -> Tensor:
    """foxflow multiplies by [in, out], nn.Linear keeps [out, in]."""
    return x.t() if name.endswith("weight") and x.ndim == 2 else x


def rollout(drawn: Drawn) -> Rollout:
    """What the step's acting saw; the rows of a synthetic tape are a second apart."""
    buffers = drawn.buffers
    return Rollout(window=buffers["obs_win"], carry=buffers["cfc_carry"], dt=torch.ones_like(buffers["log_pi"]))


def batches(drawn: Drawn, *, tau: bool) -> list[Batch]:
    """The K batches of the step; with foxflow's quantile fractions, or with none, so that the opponent draws them."""
    return [_batch(drawn, k, tau) for k in range(drawn.shape.K)]


def _batch(drawn: Drawn, k: int, tau: bool) -> Batch:
    s = drawn.shape
    at = {name: x for (name, inner), x in drawn.inner.items() if inner == k}
    return Batch(
        window=at["sampled_win"],
        carry=at["sampled_carry"],
        dt=at["sampled_dt"],
        actions=at["sampled_actions"].long(),
        rewards=at["sampled_rewards"],
        dones=at["sampled_dones"].float(),
        log_pi_old=at["sampled_log_pi_old"],
        weights=at["per_is_weight"],
        frd_labels=at["frd_labels"].long(),
        outcome_labels=at["outcome_labels"].long(),
        tau=_fractions(at["iqn_prng_state"], s) if tau else None,
    )


def _fractions(state: Tensor, s: Shape) -> tuple[Tensor, Tensor]:
    from foxflow.reference.heads import prng_advance

    first = iqn_tau_cos(state, s.Q, 1)[0].float()
    return first, iqn_tau_cos(prng_advance(state, 8), s.Q, 1)[0].float()


def check(drawn: Drawn, quadratic: bool) -> dict[str, float]:
    """Hold the opponent's step against foxflow's on the same inputs.

    Returns:
        Relative differences: of the policy's logits, each loss, the gradient norms and the change of the weights.

    Raises:
        Unequal: one of them is too large.
    """
    made, apart = learner(drawn, quadratic), {}
    logits = made.act(rollout(drawn))[0]
    apart["rollout"] = far(logits, drawn.buffers["roll_pi_logits"])
    losses: dict[str, Tensor] = {}
    for batch in batches(drawn, tau=True):
        losses = made.losses(batch)
        torch.stack(list(losses.values())).sum().backward()
    apart |= {name: far(loss.detach(), drawn.buffers[f"loss_{name}"]) for name, loss in losses.items()}
    norms = made.update()
    apart |= {f"norm {name}": far(norms[g], drawn.buffers["grad_norm"][g]) for g, name in enumerate(GROUPS)}
    moved, wanted = [], []
    parameters = dict(made.model.named_parameters())
    for weight in table(drawn.shape):
        name, was = place(weight.key), drawn.buffers[weight_name(weight.key)]
        moved.append((turned(parameters[name].detach(), name) - was).flatten())
        wanted.append((drawn.after[weight_name(weight.key)] - was).flatten())
    apart["update"] = far(torch.cat(moved), torch.cat(wanted))
    for name, value in apart.items():
        bound = UPDATE_TOLERANCE if name == "update" else TOLERANCE
        if not value <= bound:
            raise Unequal(f"{name} must be within {bound} of foxflow's, got {value}. There is nothing to time.")
    return apart


def far(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted| / |wanted|, norms over all elements."""
    size = float(wanted.double().norm())
    gap = float((found.double() - wanted.double()).norm())
    return gap / size if size > 0 else (0.0 if gap == 0 else math.inf)
