"""The trainer: observe, act, move the world, store, learn K times, adapt; one frozen Step after another."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from foxflow import digest, flow
from foxflow.agent import encoder, heads
from foxflow.agent.learner import Learner
from foxflow.capture import Capture, host_bytes
from foxflow.config import Config, Recording
from foxflow.market.book import Tape
from foxflow.market.environment import Environment, Moved, Seen, segments
from foxflow.ops import learn, policy, world
from foxflow.ops.world_state import Contract
from foxflow.replay import Replay
from foxflow.train import rules
from foxflow.train.diag import Diag
from foxflow.train.evaluation import Evaluation
from foxflow.train.inner import InnerLoop
from foxflow.train.plan import Plan
from foxflow.train.summary import Summary
from foxflow.train.table import gradient_name, target_name, weight_name

Tensors = dict[str, Tensor]


class Trainer:
    """One run of the reference trainer.

    Args:
        config: what is computed.
        recording: what is recorded.
        tape: the market.
        device: where it runs.
    """

    def __init__(self, config: Config, recording: Recording, tape: Tape, device: torch.device) -> None:
        self.config, self._shape, self.device = config, config.shape, device
        self.plan = Plan(config.shape, recording, config.steps)
        self._train_segment, self._eval_segment = segments(tape, device)
        self._contract = Contract(tick_value_e4=tape.instrument.tick_value_e4, fee_e4=tape.instrument.fee_e4)
        starts, self._eval_cursors = rules.cursors(config.seed, self._train_segment, self._eval_segment, self._shape)
        self.env = Environment(self._train_segment, self._contract, self._shape, starts)
        self.learner = Learner(self._shape, config.seed, device, config.specimens)
        self.replay = Replay(self._shape, device, config.specimens)
        self._rings = self.replay.rings() if self.plan.names() else {}
        self.prng = {name: rules.sampler(name, config.seed, self._shape, device) for name in rules.SAMPLERS}
        self.carry = torch.zeros(self._shape.B, self._shape.H, device=device)
        self.isv = rules.isv_start(device)
        self.diag = Diag(config, tape.instrument.tick_value_e4)
        self.evaluation, self.summary = Evaluation(self._eval_segment, tape.instrument), Summary(config)
        self._capture = Capture()
        self.inner = InnerLoop(config, self.learner, self.replay, self.prng, self.isv)

    def run(self, stop_at: int | None = None) -> Iterator[flow.Step]:
        """Train, evaluate, and take the closing snapshot.

        Args:
            stop_at: end after this many training steps, without evaluation; schedules keep to `config.steps`.
        """
        for t in range(self.config.steps if stop_at is None else min(stop_at, self.config.steps)):
            yield self._train(t)
        if stop_at is not None and stop_at < self.config.steps:
            return
        yield from self._evaluate()
        self._capture.take(self._tape() | self._state() | self.env.state(), self.plan.final())
        yield flow.Step(step=self.config.steps, phase=flow.FINAL, buffers=self._capture.finish())

    def _tape(self) -> Tensors:
        """Row 1."""
        return {"tape_book": self._train_segment.book, "tape_ts": self._train_segment.ts}

    def _state(self) -> Tensors:
        """Rows 2 to 9: what a step starts from, but for the world."""
        return {
            **{weight_name(key): x for key, x in self.learner.weights.items()},
            **{target_name(key): x for key, x in self.learner.targets.items()},
            **{f"adam_m.{key}": x for key, x in self.learner.m.items()},
            **{f"adam_v.{key}": x for key, x in self.learner.v.items()},
            "adam_beta": self.learner.beta,
            "isv": self.isv,
            "cfc_carry": self.carry,
            **self.prng,
        }

    def _policy(self, h: Tensor) -> Tensor:
        """Logits that actions are drawn from in training, and chosen by in evaluation."""
        return heads.linear(self.learner.weights, "pi", h)

    @torch.inference_mode()
    def _train(self, t: int) -> flow.Step:
        slots = self.plan.start(t)
        seen = self.env.observe()
        shown = {"lob_book": seen.book, "obs": seen.obs, "obs_win": seen.window}
        self._capture.take(self._tape() | self._state() | self.env.state() | shown, slots)
        h = encoder.forward(self.learner.weights, self._shape, seen.window, self.carry, seen.dt)
        logits = self._policy(h)
        action, log_pi = rules.acted(self.config, t, logits, self.prng["act_prng_state"])
        policy.prng_advance(self.prng["act_prng_state"], 1)
        labels = self.env.labels()
        moved = self.env.move(t, action, self.isv)
        acted = {"roll_h_t": h, "roll_pi_logits": logits, "action": action, "log_pi": log_pi}
        self._store(t, seen, moved, acted | {"labels": labels})
        self._capture.take(acted | world_buffers(moved) | {"slot_outcome": self.replay.outcome}, slots)
        self._capture.take_rings(self._rings, slots)
        world.carry_update(self.carry, h, moved.step.wrap)
        self.env.jump(moved.step.wrap)
        for k in range(self._shape.K):
            self.inner.iterate(k, self._capture, self.plan.inner(t, k))
        learnt = self._learn(t, logits, moved)
        self._capture.take(learnt | self.replay.counters | self.inner.scratch, self.plan.end(t))
        fields = self.diag.train(t, moved, learnt | self.inner.last, self.replay, self.isv)
        self.summary.note(t, moved, fields)
        captured = self._capture.finish()
        line = self.diag.line(t, flow.TRAIN, fields, captured)
        return flow.Step(step=t, phase=flow.TRAIN, buffers=captured, diag=line)

    def _evaluate(self) -> Iterator[flow.Step]:
        """Flat, with no carry, greedy, on rows that training never saw; nothing that training holds is changed."""
        if not self.config.eval_steps:
            return
        env = Environment(self._eval_segment, self._contract, self._shape, self._eval_cursors)
        carry, first = torch.zeros_like(self.carry), self.config.steps
        for t in range(first, first + self.config.eval_steps):
            yield self._evaluate_step(t, env, carry)
        self.evaluation.close(first + self.config.eval_steps, env)

    @torch.inference_mode()
    def _evaluate_step(self, t: int, env: Environment, carry: Tensor) -> flow.Step:
        slots, w = self.plan.evaluation(t), self.learner.weights
        seen = env.observe()
        shown = {"lob_book": seen.book, "obs": seen.obs, "obs_win": seen.window, "cfc_carry": carry, "isv": self.isv}
        self._capture.take(self.prng | env.state() | shown, slots)
        h = encoder.forward(w, self._shape, seen.window, carry, seen.dt)
        logits = self._policy(h)
        action = policy.greedy_action(logits)
        moved = env.move(t, action, self.isv)
        self.evaluation.note(t, env.account.cursor, moved)
        acted = {"roll_h_t": h, "roll_pi_logits": logits, "action": action}
        self._capture.take(acted | world_buffers(moved), slots)
        world.carry_update(carry, h, moved.step.wrap)
        env.jump(moved.step.wrap)
        captured = self._capture.finish()
        line = self.diag.line(t, flow.EVAL, {"env": self.diag.world(moved)}, captured)
        return flow.Step(step=t, phase=flow.EVAL, buffers=captured, diag=line)

    def _store(self, t: int, seen: Seen, moved: Moved, acted: Tensors) -> None:
        lived = acted | world_buffers(moved) | {"dt": seen.dt, "dt_next": moved.dt_next}
        lived |= {"obs_win": seen.window, "cfc_carry": self.carry}
        self.replay.insert(t, {name: row(lived) for name, row in rules.STORED.items()}, self._rings)
        self.replay.label(t, moved.step.done, moved.step.trade_pnl_e4, moved.step.trade_open_step)

    def _learn(self, t: int, logits: Tensor, moved: Moved) -> Tensors:
        norm = self.learner.reduce(self.inner.scratch, self.inner.chunks)
        learnt = {gradient_name(key): x.clone() for key, x in self.learner.grads.items()} | {"grad_norm": norm}
        learnt |= self.inner.losses()
        delta, size = self.learner.update(norm, self.isv)
        hold = self.env.account.hold_steps
        observed = learn.Observed(
            pi_logits_BA=logits,
            reward_raw_B=moved.reward_raw,
            done_B=moved.step.done,
            hold_steps_B=hold,
            norm_delta=delta,
            norm_weights=size,
        )
        learn.controllers(self.isv, observed, t, self.config.steps)
        return learnt

    def summaries(self, fingerprint: str | None) -> dict[str, bytes]:
        """The summary files by name, for a run that reached its end.

        Args:
            fingerprint: of the record.
        """
        weights = self.learner.flat()
        digest_of_weights = digest.digest(host_bytes(weights), "f32", tuple(weights.shape))
        return {
            "eval_summary.json": self.evaluation.summary(self.config),
            "alpha_rl_train_summary.json": self.summary.text(digest_of_weights, fingerprint),
        }


def world_buffers(moved: Moved) -> Tensors:
    """Rows 16 to 18 under the names of the dataflow."""
    return {
        "fills": moved.step.fills,
        "done": moved.step.done,
        "wrap": moved.step.wrap,
        "trade_pnl_e4": moved.step.trade_pnl_e4,
        "trade_open_step": moved.step.trade_open_step,
        "equity_half_ticks": moved.step.equity_half_ticks,
        "reward_raw": moved.reward_raw,
        "reward_shaped": moved.reward_shaped,
        "obs_next": moved.obs_next,
    }
