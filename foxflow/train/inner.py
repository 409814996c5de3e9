"""The inner loop: draw from replay, encode, predict, compare with targets, and gather gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from foxflow.agent import encoder, gradients, heads, seams
from foxflow.agent.gradients import OUTER
from foxflow.agent.learner import SCRATCHES, Learner
from foxflow.agent.parameters import table
from foxflow.agent.stage import Named, walk
from foxflow.branch import Branch
from foxflow.capture import Capture
from foxflow.config import Config, Shape
from foxflow.ops import learn, policy
from foxflow.ops.linalg import accumulate, accumulate_outer
from foxflow.replay import Replay
from foxflow.train.plan import ONLY_DUMPED, Slots
from foxflow.train.table import HEADS

Tensors = dict[str, Tensor]
WEIGHTED = ("q", "iqn", "dueling")
"""Heads whose row losses carry importance weights."""
DRAWN = ("per_is_weight",)
"""Captured as it is drawn, before the pass that reads it."""
LAST = ("per_is_weight", "outcome_labels", *(f"row_loss_{head}" for head in HEADS))
"""What the diag row is told of the last iteration."""


class InnerLoop:
    """K iterations on one set of weights; what they gather is summed once, before Adam.

    `scratch` holds one row a batch row (group I), `chunks` sums over chunks of batch rows by weight key, `factors` what
    each iteration leaves of the scratches that are outer products, `last` the buffers of the last one. `outputs`,
    `targets` and `backward` are the stages of an iteration after the encoder's; only `targets` reads the slowly
    following copies.

    Args:
        config: sizes and specimens.
        learner: weights and targets, read.
        replay: read, and its priorities written.
        prng: states of the samplers, advanced.
        isv: float32 [16], read.
        branch: what no later stage reads runs on it: sums over rows and what is gathered of them.
    """

    def __init__(
        self, config: Config, learner: Learner, replay: Replay, prng: Tensors, isv: Tensor, branch: Branch
    ) -> None:
        self._shape, self._specimens = config.shape, config.specimens
        self._learner, self._replay, self._prng, self._isv = learner, replay, prng, isv
        self._branch = branch
        self.scratch: Tensors = {}
        self.chunks: Tensors = {}
        self.factors: list[Tensors] = []
        self.last: Tensors = {}
        self.outputs, self.targets = heads.OUTPUTS, heads.TARGETS
        sums = (*heads.gradients(config.specimens), *gradients.trunk(config.specimens))
        self.backward = (*heads.LOSSES, *sums)
        self._rows = [name for name in SCRATCHES if name not in OUTER]
        self._summed = [weight.key for weight in table(self._shape) if weight.key not in SCRATCHES.values()]

    def iterate(self, k: int, capture: Capture, slots: Slots) -> None:
        """Learn from B drawn rows.

        Args:
            k: the iteration; the first one zeroes what is gathered.
            capture: takes the iteration's buffers.
            slots: of `Plan.inner`.
        """
        s, w = self._shape, self._learner.weights
        idx, weight, quantiles = self._draw(k, capture, slots)
        x = self._replay.gather(idx)
        x |= {"window": window(x, s), "carry": x["sampled_carry"], "dt": seconds(x)}
        walk(encoder.LEARNS if slots.by_name.keys().isdisjoint(ONLY_DUMPED) else encoder.SHOWS, w, s, x)
        x["sampled_h_t"] = x["h"]
        self._branch.join()
        with self._branch.beside():
            x["sampled_h_tp1"] = following(w, s, x)
        x |= quantiles | {"per_is_weight": weight, "isv": self._isv}
        walk(self.outputs, w, s, x)
        self._branch.join()
        walk(self.targets, self._learner.targets, s, x)
        walk(self.backward, w, s, x, self._branch.beside)
        with self._branch.beside(*x.values()):
            gather(self.scratch, self._rows, x, self._specimens, first=k == 0)
            gather(self.chunks, self._summed, x, self._specimens, first=k == 0)
            self._keep(k, x)
            if k == s.K - 1:
                self.close()
            capture.take({name: buffer for name, buffer in x.items() if name not in DRAWN}, slots, k)
        self.last = {name: x[name] for name in LAST}
        self._replay.update(idx, x["row_loss_q"])

    def _draw(self, k: int, capture: Capture, slots: Slots) -> tuple[Tensor, Tensor, Tensors]:
        """Draw slots, and on the branch quantiles; states and the tree are captured before anything changes them."""
        per, iqn = self._prng["per_prng_state"], self._prng["iqn_prng_state"]
        idx, weight = self._replay.draw(per, self._isv)
        drawn = {"per_prng_state": per, "iqn_prng_state": iqn, "per_idx": idx, "per_is_weight": weight}
        with self._branch.beside():
            capture.take(drawn | self._replay.tree, slots, k)
            policy.prng_advance(per, 1)
            return idx, weight, fractions(self._shape, iqn, self._specimens)

    def _keep(self, k: int, x: Tensors) -> None:
        """Keep the factors of outer products."""
        if k == 0:
            self.factors.clear()
        self.factors.append({name: x[name] for pair in OUTER.values() for name in pair})

    def close(self) -> None:
        """Add up the outer products of the iterations."""
        self.scratch |= {name: outer(name, self.factors, self._specimens) for name in OUTER}

    def losses(self) -> Tensors:
        """loss_* of the last iteration, made on the branch; the total is only logged."""
        with self._branch.beside():
            losses = {f"loss_{head}": mean_loss(head, self.last) for head in HEADS}
            return losses | {"loss_total": total_loss(losses)}


def window(x: Named, s: Shape) -> Tensor:
    """The sampled window without its last row, which is the next observation."""
    return x["sampled_win"][:, : s.T].contiguous()


def seconds(x: Named) -> Tensor:
    """Seconds between the window's last two rows."""
    return x["sampled_dt"][:, 0].contiguous()


def following(w: Named, s: Shape, x: Named) -> Tensor:
    """sampled_h_tp1: the encoding one row later, from the one before as its carry; no gradient."""
    return encoder.slide(w, s, x, x["sampled_win"][:, s.T :], x["sampled_h_t"], x["sampled_dt"][:, 1].contiguous())


def fractions(s: Shape, state: Tensor, specimens: seams.Specimens) -> Tensors:
    """Quantile fractions and cosines for the online and the target call; the samplers' states are advanced."""
    tau, cos = seams.fractions(s, state, specimens)
    tau_target, cos_target = seams.fractions(s, state, specimens)
    return {"iqn_tau": tau, "iqn_cos": cos, "iqn_tau_target": tau_target, "iqn_cos_target": cos_target}


def gather(kept: Tensors, names: Iterable[str], x: Named, specimens: seams.Specimens, *, first: bool) -> None:
    """Add an iteration's sums to what is kept; the first iteration of a step starts from zero."""
    begun: dict[bool, list[str]] = {True: [], False: []}
    for name in names:
        begun[first and seams.clears(name, specimens)].append(name)
        if first:
            kept[name] = torch.empty_like(x[name])
    for begin, some in begun.items():
        if some:
            accumulate([kept[name] for name in some], [x[name] for name in some], begin=begin)


def outer(name: str, passes: Sequence[Named], specimens: seams.Specimens) -> Tensor:
    """Add up the outer products under a name of all iterations of a step, so that their sum is written once."""
    a, b = ([x[factor] for x in passes] for factor in OUTER[name])
    total = a[0].new_empty(*a[0].shape, b[0].shape[1])
    accumulate_outer(total, a, b, begin=seams.clears(name, specimens))
    return total


def mean_loss(head: str, x: Named) -> Tensor:
    """loss_<head> from the rows of one iteration."""
    weight = x["per_is_weight"] if head in WEIGHTED else None
    return learn.mean_loss(x[f"row_loss_{head}"], weight, x["outcome_labels"] if head == "outcome" else None)


def total_loss(losses: Named) -> Tensor:
    """The sum over heads, in order."""
    total = losses["loss_q"]
    for head in HEADS[1:]:
        total = total + losses[f"loss_{head}"]
    return total
