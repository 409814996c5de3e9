"""The trainer: observe, act, move the world, store, learn K times, adapt; one frozen Step after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from foxflow import digest, flow
from foxflow.agent import encoder, heads
from foxflow.agent.learner import Learner
from foxflow.branch import Branch
from foxflow.capture import Arriving, Capture, Taken, captured, host_bytes
from foxflow.config import Config, Recording
from foxflow.determinism.specimens import SPECIMENS
from foxflow.errors import CorruptRecord
from foxflow.market.book import Tape
from foxflow.market.environment import Environment, Moved, Seen, segments
from foxflow.ops import learn, policy, world
from foxflow.ops.linalg import products
from foxflow.ops.world_state import Contract
from foxflow.replay import Replay
from foxflow.train import rules
from foxflow.train.diag import PNL, Diag, train_numbers, world_numbers
from foxflow.train.evaluation import Evaluation
from foxflow.train.graph import Graph
from foxflow.train.inner import InnerLoop
from foxflow.train.plan import Plan
from foxflow.train.summary import Summary
from foxflow.train.table import gradient_name, target_name, weight_name

Tensors = dict[str, Tensor]
Made = tuple[Taken, tuple[Tensor, Tensor]]
"""What a training step leaves on the device: the sums of its buffers, and the numbers of its line."""
WARM = len(rules.SCRIPT)
"""Steps before one is captured as a graph: a script may play them, and torch makes what it keeps at the first ones."""


@dataclass(frozen=True, slots=True)
class Under:
    """A training step whose numbers are on their way to the host."""

    t: int
    taken: Taken
    arriving: Arriving
    astray: Arriving | None
    """`Rings.astray` after the step, where it is verified."""


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
        self._rings = self.replay.rings() if self.plan.names() else None
        self._clock = torch.zeros((), dtype=torch.int64, device=device)
        self.prng = {name: rules.sampler(name, config.seed, self._shape, device) for name in rules.SAMPLERS}
        self.carry = torch.zeros(self._shape.B, self._shape.H, device=device)
        self.isv = rules.isv_start(device)
        self.diag = Diag(config, tape.instrument.tick_value_e4)
        self.evaluation, self.summary = Evaluation(self._eval_segment, tape.instrument), Summary(config)
        self._branch = Branch()
        self._capture = Capture(self._branch)
        self.inner = InnerLoop(config, self.learner, self.replay, self.prng, self.isv, self._branch)
        self._ahead = int(device.type == "cuda" and all(SPECIMENS[name].graph for name in config.specimens))
        self._graph: Graph[Made] | None = None

    def run(self, stop_at: int | None = None) -> Iterator[flow.Step]:
        """Train, evaluate, and take the closing snapshot.

        Args:
            stop_at: end after this many training steps, without evaluation; schedules keep to `config.steps`.

        On a GPU a step is handed out while the next one runs. With specimens that want memory to move nothing runs
        ahead and no graph fixes memory to its place.
        """
        under: deque[Under] = deque()
        for t in range(self.config.steps if stop_at is None else min(stop_at, self.config.steps)):
            under.append(self._train(t))
            if len(under) > self._ahead:
                yield self._trained(under.popleft())
        yield from map(self._trained, under)
        if stop_at is not None and stop_at < self.config.steps:
            return
        yield from self._evaluate()
        self._capture.take(self._tape() | self._state() | self.env.state(), self.plan.final())
        yield flow.Step(step=self.config.steps, phase=flow.FINAL, buffers=self._buffers())

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
    def _train(self, t: int) -> Under:
        with products(self.config.gemm):
            taken, numbers = self._stepped(t)
        arriving = Arriving(*numbers, *taken.sums)
        rings = self._rings if self.plan.verifies(t) else None
        return Under(t, taken, arriving, Arriving(rings.astray()) if rings is not None else None)

    def _stepped(self, t: int) -> Made:
        """A step: on a GPU one graph from the market to the digests, but for the first ones and those that dump."""
        if not self._ahead or t < WARM or self.plan.dumping(t):
            return self._step(t)
        if self._graph is None:
            self._graph = Graph(lambda: self._step(t))
        return self._graph.launch()

    def _step(self, t: int) -> Made:
        """What a step does: the device reads its number off the clock, so all steps that capture alike are one."""
        slots = self.plan.start(t)
        seen = self.env.observe()
        shown = {"lob_book": seen.book, "obs": seen.obs, "obs_win": seen.window}
        self._capture.take(self._tape() | self._state() | self.env.state() | shown, slots)
        if self._rings is not None:
            with self._branch.beside():
                self._rings.before(self._clock)
        h = encoder.forward(self.learner.weights, self._shape, seen.window, self.carry, seen.dt)
        logits = self._policy(h)
        self._branch.join()
        action, log_pi = rules.acted(self.config, t, logits, self.prng["act_prng_state"])
        policy.prng_advance(self.prng["act_prng_state"], 1)
        labels = self.env.labels()
        moved = self.env.move(self._clock, action, self.isv)
        acted = {"roll_h_t": h, "roll_pi_logits": logits, "action": action, "log_pi": log_pi}
        self._store(seen, moved, acted | {"labels": labels})
        self._capture.take(acted | rules.world_buffers(moved) | {"slot_outcome": self.replay.outcome}, slots)
        if self._rings is not None:
            with self._branch.beside():
                self._rings.after(self._clock)
            self._capture.take_rings(self._rings, slots)
        with self._branch.beside():
            told = world_numbers(moved)
        world.carry_update(self.carry, h, moved.step.wrap)
        self.env.jump(moved.step.wrap)
        learnt = self._learn(t)
        self._adapt(logits, moved, learnt)
        taken = self._capture.taken()
        self._clock.add_(1)
        return taken, train_numbers(told, learnt, self.replay, self.isv)

    def _trained(self, under: Under) -> flow.Step:
        """Wait for a step's numbers, and write its line."""
        floats, ints, *sums = under.arriving.wait()
        self._verify(under)
        counts = ints.tolist()
        fields = self.diag.train(floats.tolist(), counts)
        self.summary.note(under.t, counts[PNL], fields)
        buffers = captured(under.taken.notes, sums)
        line = self.diag.line(under.t, flow.TRAIN, fields, buffers)
        return flow.Step(step=under.t, phase=flow.TRAIN, buffers=buffers, diag=line)

    def _verify(self, under: Under) -> None:
        """Hold what was found of the rings against what must be.

        Raises:
            CorruptRecord: a ring has other bytes than its steps wrote.
        """
        if self._rings is None or under.astray is None:
            return
        for name, astray in zip(self._rings.buffers, under.astray.wait()[0].tolist(), strict=True):
            if astray:
                why = "its bytes are not those that steps wrote: something else wrote there, or a bit flipped"
                raise CorruptRecord("this run", f"train step {under.t}, buffer {name}", why)

    def _buffers(self) -> tuple[flow.Captured, ...]:
        """What was taken, brought home at once."""
        taken = self._capture.taken()
        return captured(taken.notes, [x.cpu() for x in taken.sums])

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
        with products(self.config.gemm):
            h = encoder.forward(w, self._shape, seen.window, carry, seen.dt)
            logits = self._policy(h)
        action = policy.greedy_action(logits)
        moved = env.move(self._clock, action, self.isv)
        self.evaluation.note(t, env.account.cursor, moved)
        acted = {"roll_h_t": h, "roll_pi_logits": logits, "action": action}
        self._capture.take(acted | rules.world_buffers(moved), slots)
        world.carry_update(carry, h, moved.step.wrap)
        env.jump(moved.step.wrap)
        self._clock.add_(1)
        buffers = self._buffers()
        floats, ints = (x.tolist() for x in world_numbers(moved))
        line = self.diag.line(t, flow.EVAL, {"env": self.diag.world(floats, ints)}, buffers)
        return flow.Step(step=t, phase=flow.EVAL, buffers=buffers, diag=line)

    def _store(self, seen: Seen, moved: Moved, acted: Tensors) -> None:
        lived = acted | rules.world_buffers(moved) | {"dt": seen.dt, "dt_next": moved.dt_next}
        lived |= {"obs_win": seen.window, "cfc_carry": self.carry}
        self.replay.insert(self._clock, {name: row(lived) for name, row in rules.STORED.items()})
        self.replay.label(self._clock, moved.step.done, moved.step.trade_pnl_e4, moved.step.trade_open_step)

    def _learn(self, t: int) -> Tensors:
        for k in range(self._shape.K):
            self.inner.iterate(k, self._capture, self.plan.inner(t, k))
        self.inner.close()
        self._branch.join()
        losses = self.inner.losses()
        norm = self.learner.reduce(self.inner.scratch, self.inner.chunks)
        learnt = {gradient_name(key): x for key, x in self.learner.grads.items()} | {"grad_norm": norm}
        learnt |= losses
        self._capture.take(learnt | self.replay.counters | self.inner.scratch, self.plan.end(t))
        delta, size = self.learner.update(norm, self.isv)
        return learnt | self.inner.last | {"norm_delta": delta, "norm_weights": size}

    def _adapt(self, logits: Tensor, moved: Moved, learnt: Tensors) -> None:
        observed = learn.Observed(
            pi_logits_BA=logits,
            reward_raw_B=moved.reward_raw,
            done_B=moved.step.done,
            hold_steps_B=self.env.account.hold_steps,
            norm_delta=learnt["norm_delta"],
            norm_weights=learnt["norm_weights"],
        )
        learn.controllers(self.isv, observed, self._clock, self.config.steps)

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
