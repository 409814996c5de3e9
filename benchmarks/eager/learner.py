"""One step of the opponent: rollout's forward, K drawn batches with seven losses, clipping, Adam, target copies.

Market, replay and controllers are left out: the batches are given, so the step does less than foxflow's.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.eager.model import Model
from foxflow.config import Shape

TARGETS = ("q", "v", "iqn", "dueling")
GROUPS = ("trunk", "q", "pi", "v", "iqn", "dueling", "frd", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B rows drawn from replay, and the fractions that IQN is asked for (None: drawn in the step)."""

    window: Tensor
    carry: Tensor
    dt: Tensor
    actions: Tensor
    rewards: Tensor
    dones: Tensor
    log_pi_old: Tensor
    weights: Tensor
    frd_labels: Tensor
    outcome_labels: Tensor
    tau: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What acting sees."""

    window: Tensor
    carry: Tensor
    dt: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What foxflow's controllers would move; constants here."""

    lr: float = 3e-4
    entropy: float = 0.01
    gamma: float = 0.99


class Learner:
    """A model, its target copies and its optimiser.

    Args:
        s: sizes.
        device: where it lives.
        coefficients: of losses and Adam.
        quadratic: Mamba-2 in its quadratic form instead of the recurrence.
    """

    def __init__(self, s: Shape, device: torch.device, coefficients: Coefficients, quadratic: bool) -> None:
        self.shape, self.coefficients = s, coefficients
        self.model = Model(s, quadratic).to(device)
        self.targets = nn.ModuleDict({name: copy.deepcopy(getattr(self.model, name)) for name in TARGETS})
        self.targets.requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=coefficients.lr, fused=True)
        self.atoms = torch.linspace(-2, 2, s.Z, device=device)
        self._pairs = [list(getattr(self.model, name).parameters()) for name in TARGETS]
        self._sources = [p for group in self._pairs for p in group]

    def step(self, rollout: Rollout, batches: Sequence[Batch]) -> dict[str, Tensor]:
        """Act once and learn from every batch; returns the losses of the last one."""
        self.act(rollout)
        losses = {}
        for batch in batches:
            losses = self.losses(batch)
            torch.stack(list(losses.values())).sum().backward()
        self.update()
        return losses

    @torch.inference_mode()
    def act(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Logits of the policy and actions drawn from them."""
        logits = self.model.pi(self.model.trunk(rollout.window, rollout.carry, rollout.dt))
        return logits, torch.multinomial(torch.softmax(logits, 1), 1)

    def update(self) -> list[Tensor]:
        """Clip each group's gradient to norm 1, take one Adam step, move the targets; returns the norms."""
        groups = [getattr(self.model, name).parameters() for name in GROUPS]
        norms = [nn.utils.clip_grad_norm_(group, 1.0) for group in groups]
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            self.model.trunk.tau.clamp_(0.05, 100.0)
            torch._foreach_lerp_(list(self.targets.parameters()), self._sources, 0.005)
        return norms

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The seven losses, by head."""
        s, model, rows = self.shape, self.model, torch.arange(len(batch.actions), device=batch.actions.device)
        h = model.trunk(batch.window[:, :-1], batch.carry, batch.dt[:, 0])
        still = h.detach()
        tau, tau_next = batch.tau or (torch.rand(len(h), s.Q, device=h.device) for _ in range(2))
        target = self.pulled_to(batch, still, tau_next)
        log_p = torch.log_softmax(model.q(h).unflatten(1, (s.A, s.Z))[rows, batch.actions], 1)
        value = model.v(h)[:, 0]
        log_pi = torch.log_softmax(model.pi(h), 1)
        ratio = (log_pi[rows, batch.actions] - batch.log_pi_old).exp()
        advantage = target["v"] - value.detach()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        entropy = -(log_pi.exp() * log_pi).sum(1)
        u = target["iqn"][:, None] - model.iqn(still, tau)[rows, :, batch.actions][:, :, None]
        tilt = (tau[:, :, None] - (u.detach() < 0).float()).abs()
        quantile = tilt * functional.huber_loss(u, torch.zeros_like(u), reduction="none")
        taken = model.dueling(still)[rows, batch.actions]
        dueling = functional.huber_loss(taken, target["dueling"], reduction="none")
        frd = functional.cross_entropy(
            model.frd(h).view(-1, s.Y), batch.frd_labels.flatten(), ignore_index=-1, reduction="sum"
        )
        outcome = functional.cross_entropy(model.outcome(h), batch.outcome_labels, ignore_index=-1, reduction="sum")
        return {
            "q": -(batch.weights * (target["q"] * log_p).sum(1)).mean(),
            "pi": -(gain + self.coefficients.entropy * entropy).mean(),
            "v": 0.5 * functional.mse_loss(value, target["v"]),
            "iqn": (batch.weights * quantile.mean(2).sum(1)).mean(),
            "dueling": (batch.weights * dueling).mean(),
            "frd": frd / batch.frd_labels.numel(),
            "outcome": outcome / (batch.outcome_labels >= 0).sum().clamp(min=1),
        }

    @torch.no_grad()
    def pulled_to(self, batch: Batch, still_BH: Tensor, tau_BQ: Tensor) -> dict[str, Tensor]:
        """Targets of q, v, iqn and dueling from the state one row later, without gradient."""
        s, targets, rows = self.shape, self.targets, torch.arange(len(still_BH), device=still_BH.device)
        h = self.model.trunk(batch.window[:, 1:], still_BH, batch.dt[:, 1])
        keep = self.coefficients.gamma * (1 - batch.dones)
        p = torch.softmax(targets["q"](h).unflatten(1, (s.A, s.Z)), 2)
        p = p[rows, (p @ self.atoms).argmax(1)]
        spots = torch.addcmul(batch.rewards[:, None], keep[:, None], self.atoms).clamp(-2, 2)
        spots = (spots + 2) * ((s.Z - 1) / 4)
        share = (1 - (spots[:, :, None] - torch.arange(s.Z, device=h.device)).abs()).clamp(min=0)
        quantiles = targets["iqn"](h, tau_BQ)
        best = quantiles[rows, :, quantiles.mean(1).argmax(1)]
        return {
            "q": torch.einsum("bj,bjk->bk", p, share),
            "v": batch.rewards + keep * targets["v"](h)[:, 0],
            "iqn": batch.rewards[:, None] + keep[:, None] * best,
            "dueling": batch.rewards + keep * targets["dueling"](h).amax(1),
        }
