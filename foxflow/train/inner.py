"""The inner loop: draw from replay, encode, predict, compare with targets, and gather gradients."""

from __future__ import annotations

from torch import Tensor

from foxflow.agent import encoder, heads
from foxflow.agent.learner import Learner
from foxflow.capture import Capture
from foxflow.config import Shape
from foxflow.ops import iqn, learn, policy
from foxflow.replay import Replay
from foxflow.train.plan import Slots
from foxflow.train.table import HEADS

Tensors = dict[str, Tensor]
IQN_ADVANCE = 8
"""xorshift32 steps of the quantile sampler's state after each call."""
WEIGHTED = ("q", "iqn", "dueling")
"""Heads whose row losses carry importance weights."""


class InnerLoop:
    """K iterations on one set of weights; what they gather is summed once, before Adam.

    `scratch` holds one row a batch row (group I), `chunks` sums over chunks of batch rows by weight key, `last` the
    buffers of the last iteration.

    Args:
        s: sizes.
        learner: weights and targets, read.
        replay: read, and its priorities written.
        prng: states of the samplers, advanced.
        isv: float32 [16], read.
    """

    def __init__(self, s: Shape, learner: Learner, replay: Replay, prng: Tensors, isv: Tensor) -> None:
        self._shape, self._learner, self._replay, self._prng, self._isv = s, learner, replay, prng, isv
        self.scratch: Tensors = {}
        self.chunks: Tensors = {}
        self.last: Tensors = {}

    def iterate(self, k: int, capture: Capture, slots: Slots) -> None:
        """Learn from B drawn rows.

        Args:
            k: the iteration; the first one zeroes what is gathered.
            capture: takes the iteration's buffers.
            slots: of `Plan.inner`.
        """
        s, w = self._shape, self._learner.weights
        idx, weight = self._draw(k, capture, slots)
        rows = self._replay.gather(idx)
        win, dt = rows["sampled_win"], rows["sampled_dt"]
        now = (win[:, : s.T].contiguous(), rows["sampled_carry"], dt[:, 0].contiguous())
        f = encoder.forward(w, s, *now, learns=True)
        h_next = encoder.forward(w, s, win[:, 1:].contiguous(), f.h, dt[:, 1].contiguous()).h
        cosines = self._fractions()
        sampled = self._sampled(rows, weight)
        out = heads.forward(w, s, f.h, cosines["iqn_cos"])
        want = heads.target(self._learner.targets, s, h_next, cosines["iqn_cos_target"], sampled)
        losses = heads.loss(out.record, cosines["iqn_tau"], want, sampled)
        grads, chunks = heads.backward(w, s, f.h, losses, out, cosines["iqn_cos"])
        back = encoder.backward(w, s, f, grads["grad_h_t_combined"])
        self._gather(k, back.scratch, back.chunks | chunks)
        self.last = rows | out.record | want | losses | grads | {"per_is_weight": weight}
        encoded = activations(f) | {"sampled_h_t": f.h, "sampled_h_tp1": h_next}
        fresh = encoded | cosines | back.record | self.last
        capture.take({name: x for name, x in fresh.items() if name != "per_is_weight"}, slots, k)
        self._replay.update(idx, losses["row_loss_q"])

    def _draw(self, k: int, capture: Capture, slots: Slots) -> tuple[Tensor, Tensor]:
        """Draw slots; the samplers' states are captured before they are used."""
        per = self._prng["per_prng_state"]
        idx, weight = self._replay.draw(per, self._isv)
        drawn = {"per_prng_state": per, "per_idx": idx, "per_is_weight": weight}
        capture.take(drawn | {"iqn_prng_state": self._prng["iqn_prng_state"]} | self._replay.tree, slots, k)
        policy.prng_advance(per, 1)
        return idx, weight

    def _fractions(self) -> Tensors:
        """Quantile fractions and cosines for the online and the target call."""
        s, state = self._shape, self._prng["iqn_prng_state"]
        tau, cos = iqn.iqn_tau_cos(state, s.Q, s.E)
        policy.prng_advance(state, IQN_ADVANCE)
        tau_target, cos_target = iqn.iqn_tau_cos(state, s.Q, s.E)
        policy.prng_advance(state, IQN_ADVANCE)
        return {"iqn_tau": tau, "iqn_cos": cos, "iqn_tau_target": tau_target, "iqn_cos_target": cos_target}

    def _sampled(self, rows: Tensors, weight: Tensor) -> heads.Sampled:
        return heads.Sampled(
            action=rows["sampled_actions"],
            reward=rows["sampled_rewards"],
            done=rows["sampled_dones"],
            log_pi_old=rows["sampled_log_pi_old"],
            weight=weight,
            frd_labels=rows["frd_labels"],
            outcome_labels=rows["outcome_labels"],
            isv=self._isv,
        )

    def _gather(self, k: int, scratch: Tensors, chunks: Tensors) -> None:
        for kept, fresh in ((self.scratch, scratch), (self.chunks, chunks)):
            for name, x in fresh.items():
                if name not in kept:
                    kept[name] = x.new_zeros(x.shape)
                if k == 0:
                    kept[name].zero_()
                kept[name] += x

    def losses(self) -> Tensors:
        """loss_* of the last iteration; the total is only logged."""
        losses = {}
        for head in HEADS:
            weight = self.last["per_is_weight"] if head in WEIGHTED else None
            labels = self.last["outcome_labels"] if head == "outcome" else None
            losses[f"loss_{head}"] = learn.mean_loss(self.last[f"row_loss_{head}"], weight, labels)
        total = losses["loss_q"]
        for head in HEADS[1:]:
            total = total + losses[f"loss_{head}"]
        return losses | {"loss_total": total}


def activations(f: encoder.Activations) -> Tensors:
    """The encoder's activations under the names of the dataflow."""
    named = {
        "vsn_gate": f.gate,
        "vsn_out": f.vsn_out,
        "enc_in": f.enc_in,
        "attn_alpha": f.alpha,
        "attn_ctx": f.context,
        "cfc_cand": f.candidate,
        "cfc_decay": f.decay,
    }
    for name, block in (("a", f.a), ("b", f.b)):
        window = f.enc_in.shape
        named |= {
            f"mamba_{name}_u": block.u,
            f"mamba_{name}_state": block.state,
            f"mamba_{name}_y": block.y,
            f"mamba_{name}_out": block.out.view(window),
            f"ln_{name}_out": block.ln_out.view(window),
        }
    return named
