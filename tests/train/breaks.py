"""Parts of the trainer that break what the verdict tables need, each put in place of a real one.

A break changes one thing, in both runs of a pair alike: a class of trainer, or a function that changes a trainer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from foxflow.agent import heads
from foxflow.agent.learner import Learner
from foxflow.agent.stage import Named, Stage, walk
from foxflow.capture import Capture
from foxflow.config import Shape
from foxflow.market.environment import Environment, Moved
from foxflow.ops import learn, losses
from foxflow.ops.linalg import matmul_nt
from foxflow.replay import Replay, write
from foxflow.train.inner import InnerLoop
from foxflow.train.plan import Slots
from foxflow.train.trainer import Trainer

Tensors = dict[str, Tensor]
Run = Callable[[Named, Shape, Named], tuple[Tensor, ...]]


def instead(stages: tuple[Stage, ...], name: str, run: Run) -> tuple[Stage, ...]:
    """The stages, one of them computed otherwise."""
    assert sum(name in stage.makes for stage in stages) == 1
    return tuple(Stage(stage.makes, run) if name in stage.makes else stage for stage in stages)


def on(trainer: Trainer, kind: type[InnerLoop] = InnerLoop) -> None:
    """Give the trainer an inner loop on the parts that it has now."""
    trainer.inner = kind(trainer.config, trainer.learner, trainer.replay, trainer.prng, trainer.isv, trainer._branch)


def storing(trainer: Trainer, kind: type[Replay]) -> None:
    trainer.replay = kind(trainer.config.shape, trainer.device, trainer.config.specimens)
    trainer._rings = trainer.replay.rings()
    on(trainer)


def iqn_sends_its_gradient_on(trainer: Trainer) -> None:
    def combined(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        total = x["grad_h_t_q"]
        for head in heads.LINEAR[1:]:
            total = total + x[f"grad_h_t_{head}"]
        return (total + matmul_nt(x["grad_logits_iqn"].sum(1), w["iqn.o_w"]),)

    trainer.inner.backward = instead(trainer.inner.backward, "grad_h_t_combined", combined)


class ActsByIqn(Trainer):
    """The mean over quantiles stands in for the policy's logits."""

    def _policy(self, h: Tensor) -> Tensor:
        s = self.config.shape
        x = {"sampled_h_t": h, "iqn_cos": h.new_ones(s.B, s.Q, s.E)}
        walk(heads.OUTPUTS, self.learner.weights, s, x)
        return x["iqn_q_values"].mean(1)


def priorities_come_from_iqn(trainer: Trainer) -> None:
    class ByIqn(Replay):
        def update(self, idx: Tensor, row_loss_q: Tensor) -> None:
            assert row_loss_q is trainer.inner.last["row_loss_q"]
            super().update(idx, trainer.inner.last["row_loss_iqn"])

    storing(trainer, ByIqn)


class OneNorm(Learner):
    """All groups are clipped by the norm of the whole gradient."""

    def reduce(self, scratch: Tensors, chunks: Tensors) -> Tensor:
        norms = super().reduce(scratch, chunks)
        return learn.group_norm(self._grad, [0, self._grad.numel()]).expand(norms.shape).contiguous()


class HeedsTheLoss(Trainer):
    """The learning rate is IQN's loss: nothing is rounded on the way, so that whatever moves the loss shows."""

    def _adapt(self, logits: Tensor, moved: Moved, learnt: Tensors) -> None:
        super()._adapt(logits, moved, learnt)
        self.isv[0] = learnt["loss_iqn"]


def the_state_takes_in_what_was_drawn(trainer: Trainer) -> None:
    """Every thread that drew stores the state, instead of a sole writer that read it before."""

    def stored(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
        drawn_B = x["iqn_tau"].view(torch.int32).sum(1).to(torch.int32)
        trainer.prng["iqn_prng_state"].copy_(drawn_B.view(torch.uint32))
        return ()

    trainer.inner.outputs = (Stage((), stored), *trainer.inner.outputs)


def the_draw_shares_the_racing_state(trainer: Trainer) -> None:
    trainer.prng["iqn_prng_state"] = trainer.prng["per_prng_state"]
    the_state_takes_in_what_was_drawn(trainer)


def dueling_learns_from_iqns_target(trainer: Trainer) -> None:
    trainer.inner.backward = instead(
        trainer.inner.backward,
        "row_loss_dueling",
        lambda w, s, x: losses.dueling_loss(
            x["dueling_q_composed"], x["iqn_target"].mean(1), x["sampled_actions"], x["per_is_weight"]
        ),
    )


class StepsEachIteration(InnerLoop):
    """Adam steps inside the inner loop too."""

    def iterate(self, k: int, capture: Capture, slots: Slots) -> None:
        super().iterate(k, capture, slots)
        if k + 1 < self._shape.K:
            self.close()
            self._learner.update(self._learner.reduce(self.scratch, self.chunks), self._isv)


def adam_steps_in_every_iteration(trainer: Trainer) -> None:
    on(trainer, StepsEachIteration)


class AtOnce(Environment):
    """An action arrives in the step that chose it."""

    def move(self, step: Tensor, action: Tensor, isv: Tensor) -> Moved:
        self.account.pending.copy_(action)
        return super().move(step, action, isv)


def no_latency(trainer: Trainer) -> None:
    env = trainer.env
    trainer.env = AtOnce(env.segment, trainer._contract, trainer.config.shape, env.account.cursor)


def labels_are_written_after_the_inner_loop(trainer: Trainer) -> None:
    """That is, before the insertion of the next step."""

    class Late(Replay):
        waiting: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

        def label(self, step: Tensor, done: Tensor, pnl_e4: Tensor, open_step: Tensor) -> None:
            if self.waiting:
                super().label(*self.waiting)
            self.waiting = (step.clone(), done.clone(), pnl_e4.clone(), open_step.clone())

    storing(trainer, Late)


def rows_are_labelled_when_they_are_inserted(trainer: Trainer) -> None:
    class Early(Replay):
        def label(self, step: Tensor, done: Tensor, pnl_e4: Tensor, open_step: Tensor) -> None:
            write({"outcome": self.outcome}, {"outcome": torch.ones_like(open_step)}, step, ())

    storing(trainer, Early)


def a_label_is_read_off_a_prediction(trainer: Trainer) -> None:
    def guessed(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
        """By its lowest bits: the largest class may well be the same one for two heads."""
        return (x["outcome_logits"].sum(1).view(torch.int32).remainder(3),)

    trainer.inner.targets = (*trainer.inner.targets, Stage(("outcome_labels",), guessed))


def masked_rows_are_zero_times_a_weight(trainer: Trainer) -> None:
    def product(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
        grad, weight = x["grad_logits_outcome"], w["outcome_w"]
        parts = [grad[:, c, None] * weight[:, c] for c in range(3)]
        whole = parts[0] + parts[1] + parts[2]
        return (torch.where(whole == 0, parts[0], whole),)  # a column's sign is then its weight's, as like as not

    trainer.inner.backward = instead(trainer.inner.backward, "grad_h_t_outcome", product)


class NoEpsilon(Learner):
    """Adam divides by the root of v alone: 0 / 0 where a weight had no gradient yet."""

    def update(self, norm: Tensor, isv: Tensor) -> tuple[Tensor, Tensor]:
        moved = super().update(norm, isv)
        self._flat += 0 * (self._state.m_W / self._state.v_W.sqrt())
        return moved


class Decays(Learner):
    """Weights shrink by a hundredth a step."""

    def update(self, norm: Tensor, isv: Tensor) -> tuple[Tensor, Tensor]:
        moved = super().update(norm, isv)
        self._flat *= 0.99
        return moved


def learning(kind: type[Learner]) -> Callable[[Trainer], None]:
    def change(trainer: Trainer) -> None:
        config = trainer.config
        trainer.learner = kind(config.shape, config.seed, trainer.device, config.specimens)
        on(trainer)

    return change


def no_carry_is_stored(trainer: Trainer) -> None:
    class Forgets(Replay):
        def insert(self, step: Tensor, rows: Tensors) -> None:
            super().insert(step, rows | {"slot_carry": torch.zeros_like(rows["slot_carry"])})

    storing(trainer, Forgets)


class KeepsTheLast(InnerLoop):
    """Only the last iteration's sums reach Adam."""

    def iterate(self, k: int, capture: Capture, slots: Slots) -> None:
        for gathered in (*self.scratch.values(), *self.chunks.values()):
            gathered.zero_()
        self.factors.clear()
        super().iterate(k, capture, slots)


def the_last_iteration_alone_is_kept(trainer: Trainer) -> None:
    on(trainer, KeepsTheLast)
