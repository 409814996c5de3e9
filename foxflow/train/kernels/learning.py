"""Kernels of learning: draws from the ring, the stages of the inner loop, gradients, Adam, targets, controllers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from foxflow.agent import encoder, gradients, heads, seams
from foxflow.agent.learner import SCRATCHES, TAU, TAU_BOUNDS, change, chunk_sums, total
from foxflow.agent.parameters import GROUPS, Layout, table
from foxflow.agent.stage import Stage
from foxflow.config import Shape
from foxflow.ops import learn
from foxflow.ops import replay as ring
from foxflow.replay import GATHERED, Replay, count, rebuild
from foxflow.train import inner
from foxflow.train.kernels.call import Call, Found
from foxflow.train.kernels.places import rows
from foxflow.train.table import HEADS, gradient_name, target_name, weight_name

Kernel = Callable[[Call], Tensor]


def leaves(c: Call) -> Tensor:
    """per_leaf: the priorities of the iteration before, and in the first one the step's new rows."""
    fresh = Replay(c.shape, c.setting.device)
    leaf = c.own("per_leaf~", lambda: fresh.tree["per_leaf"])
    if "per_idx~" in c.inputs:
        ring.per_update(leaf, torch.zeros((), device=leaf.device), c["per_idx~"], c["row_loss_q~"])
    if c.k == 0:
        most = c.own("per_max_prio-", lambda: fresh.counters["per_max_prio"])
        ring.per_insert(leaf, c.clock(), c.shape.B, most)
    return leaf


def tree(c: Call) -> Tensor:
    """per_tree."""
    summed = torch.zeros_like(c["per_leaf"])
    rebuild(c["per_leaf"], summed, c.setting.config.specimens)
    return summed


def drawn(c: Call) -> Tensor:
    """per_idx or per_is_weight."""
    both = ring.per_sample(c["per_leaf"], c["per_tree"], c["per_prng_state"], c["isv"], c["per_len"])
    return both[c.buffer.name == "per_is_weight"]


def counter(c: Call) -> Tensor:
    """per_head or per_len."""
    counters, name = Replay(c.shape, c.setting.device).counters, c.buffer.name
    counters[name] = c.own(f"{name}-", lambda: counters[name])
    count(counters, c.shape)
    return counters[name]


def largest(c: Call) -> Tensor:
    """per_max_prio; which slots were drawn has no part in it."""
    fresh = Replay(c.shape, c.setting.device)
    most = c.own("per_max_prio-", lambda: fresh.counters["per_max_prio"])
    for k in range(c.shape.K):
        loss = c[f"row_loss_q@{k}"]
        ring.per_update(fresh.tree["per_leaf"], most, torch.zeros_like(loss, dtype=torch.int32), loss)
    return most


def gathered(c: Call) -> Tensor:
    """A drawn row."""
    return c[GATHERED[c.buffer.name]].index_select(0, c["per_idx"])


def fractions(c: Call) -> Tensor:
    """Quantile fractions and cosines of either call."""
    return inner.fractions(c.shape, c["iqn_prng_state"].clone(), c.setting.config.specimens)[c.buffer.name]


@cache
def stages(specimens: seams.Specimens) -> dict[str, Stage]:
    """The stages of the learning pass by what they make."""
    whole = (*encoder.SHOWS, *heads.OUTPUTS, *heads.TARGETS, *heads.LOSSES)
    whole += (*heads.gradients(specimens), *gradients.trunk(specimens))
    return {name: stage for stage in whole for name in stage.makes}


class Pass:
    """The learning pass of one iteration: buffers come from the record, what no record holds is made anew.

    Args:
        c: the replay.
        k: the iteration, where the buffer is made from all of them.
    """

    def __init__(self, c: Call, k: int | None = None) -> None:
        self._call, self._k, self._made = c, k, dict[str, Tensor]()
        self._rows, self._stages = rows(c.shape), stages(c.setting.config.specimens)
        self.found = Found(self._find)

    def make(self, name: str) -> Tensor:
        """Run the stage that makes a name."""
        stage = self._stages[name]
        naming = target_name if stage in heads.TARGETS else weight_name
        weights = Found(lambda key: self._call[naming(key)])
        made = stage.run(weights, self._call.shape, self.found)
        self._made.update(zip(stage.makes, made, strict=True))
        return self._made[name]

    def _find(self, name: str) -> Tensor:
        if (name, True) in self._rows:
            return self._call[name if self._k is None else f"{name}@{self._k}"]
        if name == "isv":
            return self._call[name]
        if name in ENTRIES:
            return ENTRIES[name](self)
        return self._made[name] if name in self._made else self.make(name)

    @property
    def sizes(self) -> Shape:
        """Sizes of the run."""
        return self._call.shape


ENTRIES: dict[str, Callable[[Pass], Tensor]] = {
    "window": lambda p: inner.window(p.found, p.sizes),
    "carry": lambda p: p.found["sampled_carry"],
    "dt": lambda p: inner.seconds(p.found),
}
"""What the learning pass starts from."""


def staged(c: Call) -> Tensor:
    """A buffer of the inner loop that a stage makes."""
    return Pass(c).make("h" if c.buffer.name == "sampled_h_t" else c.buffer.name)


def following(c: Call) -> Tensor:
    """sampled_h_tp1."""
    return inner.following(Found(lambda key: c[weight_name(key)]), c.shape, Found(c.__getitem__))


def kept(c: Call, name: str) -> Tensor:
    """What the iterations of a step add up to under a name."""
    passes = [Pass(c, k).found for k in range(c.shape.K)]
    if name in gradients.OUTER:
        return inner.outer(name, passes, c.setting.config.specimens)
    sums: dict[str, Tensor] = {}
    for k, found in enumerate(passes):
        inner.gather(sums, (name,), found, c.setting.config.specimens, first=k == 0)
    return sums[name]


def scratch(c: Call) -> Tensor:
    """A scratch of group I."""
    return kept(c, c.buffer.name)


def gradient(c: Call, key: str) -> Tensor:
    """A weight's reduced gradient: from its scratch, or from the sums of the iterations."""
    specimens = c.setting.config.specimens
    if key in SCRATCHES.values():
        return total(chunk_sums(c[c.buffer.inputs[0]], c.shape.B, specimens), specimens)
    return total(kept(c, key), specimens)


def norms(c: Call) -> Tensor:
    """grad_norm."""
    layout = Layout(c.shape)
    flat = torch.cat([c[gradient_name(weight.key)].reshape(-1) for weight in layout.weights])
    return seams.norms(flat, layout.offsets, c.setting.config.specimens)


def loss(c: Call, head: str) -> Tensor:
    """loss_<head>, of the last iteration."""
    return inner.mean_loss(head, Found(lambda name: c[f"{name}@{c.shape.K - 1}"]))


def adam(c: Call, key: str) -> Tensor:
    """A weight, its moments, or the running products; what the one asked for does not depend on is zero."""
    group = next((weight.group for weight in table(c.shape) if weight.key == key), GROUPS[0])
    like = c[f"{c.buffer.name}-"].reshape(-1)

    def given(name: str, size: int = like.numel()) -> Tensor:
        return c.own(f"{name}-", lambda: torch.zeros(size, device=like.device)).reshape(-1)

    w, norm = given(weight_name(key)), given("grad_norm", len(GROUPS))[GROUPS.index(group)]
    changed = {weight_name(key): w, f"adam_m.{key}": given(f"adam_m.{key}"), f"adam_v.{key}": given(f"adam_v.{key}")}
    changed["adam_beta"] = given("adam_beta", 2)
    state = learn.AdamState(**dict(zip(("w_W", "m_W", "v_W", "beta_2"), changed.values(), strict=True)))
    grad, isv = given(gradient_name(key)), given("isv", 16)
    learn.adam(state, grad, norm.reshape(1), [0, like.numel()], isv)
    if key == TAU:
        w.clamp_(*TAU_BOUNDS)
    return changed[c.buffer.name]


def polyak(c: Call) -> Tensor:
    """A target copy."""
    target, source = (c[key].reshape(-1) for key in reversed(c.buffer.inputs))
    moved = target.clone()
    learn.polyak(moved, source)
    return moved


def isv(c: Call) -> Tensor:
    """The internal state variables, after training's last step left as they are."""
    held = c["isv-"].clone()
    if c.setting.evaluates:
        return held
    trunk = [weight_name(weight.key) for weight in table(c.shape) if weight.group == "trunk"]
    before, after = (torch.cat([c[f"{name}{mark}"].reshape(-1) for name in trunk]) for mark in ("-", ""))
    delta, size = change(before, after)
    observed = learn.Observed(
        pi_logits_BA=c["roll_pi_logits-"],
        reward_raw_B=c["reward_raw-"],
        done_B=c["done-"],
        hold_steps_B=c["hold_steps"],
        norm_delta=delta,
        norm_weights=size,
    )
    learn.controllers(held, observed, c.clock(back=1), c.setting.config.steps)
    return held


@cache
def kernels(s: Shape) -> dict[str, Kernel]:
    """Buffer -> what makes it, of rows 2 to 7 and 21 to 43."""
    made: dict[str, Kernel] = {
        **dict.fromkeys((name for name, inner_row in rows(s) if inner_row), staged),
        "per_leaf": leaves,
        "per_tree": tree,
        **dict.fromkeys(("per_idx", "per_is_weight"), drawn),
        **dict.fromkeys(("per_head", "per_len"), counter),
        "per_max_prio": largest,
        **dict.fromkeys(GATHERED, gathered),
        **dict.fromkeys(("iqn_tau", "iqn_cos", "iqn_tau_target", "iqn_cos_target"), fractions),
        "sampled_h_tp1": following,
        **dict.fromkeys(SCRATCHES, scratch),
        "grad_norm": norms,
        **{f"loss_{head}": partial(loss, head=head) for head in HEADS},
        "loss_total": lambda c: inner.total_loss(Found(c.__getitem__)),
        "adam_beta": partial(adam, key=""),
        "isv": isv,
    }
    for weight in table(s):
        key = weight.key
        made[gradient_name(key)] = partial(gradient, key=key)
        made |= dict.fromkeys((weight_name(key), f"adam_m.{key}", f"adam_v.{key}"), partial(adam, key=key))
        made[target_name(key)] = polyak
    return made
