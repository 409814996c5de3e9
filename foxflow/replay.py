"""The experience store: a ring of C slots, its priorities, and the rows drawn from it.

Axes: B rows a step, C slots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.capture import Rings
from foxflow.config import Shape
from foxflow.ops import replay as ops
from foxflow.ops import specimens as racy

Tensors = dict[str, Tensor]


GATHERED = {
    "sampled_actions": "slot_action",
    "sampled_rewards": "slot_reward",
    "sampled_dones": "slot_done",
    "sampled_log_pi_old": "slot_log_pi",
    "sampled_win": "slot_win",
    "sampled_carry": "slot_carry",
    "sampled_dt": "slot_dt",
    "frd_labels": "slot_frd",
    "outcome_labels": "slot_outcome",
}
"""Name of a drawn row -> the slots that it comes from."""


class Replay:
    """C slots written B at a time; buffers of the dataflow by name in `slots`, `counters` and `tree`.

    Args:
        s: sizes; B divides C.
        device: where it lives.
        specimens: bugs that are switched on.
    """

    def __init__(self, s: Shape, device: torch.device, specimens: tuple[str, ...] = ()) -> None:
        self._shape, self._specimens = s, specimens
        int32 = torch.int32
        self.slots: Tensors = {
            "slot_win": torch.zeros(s.C, s.T + 1, s.F, device=device),
            "slot_carry": torch.zeros(s.C, s.H, device=device),
            "slot_dt": torch.zeros(s.C, 2, device=device),
            "slot_action": torch.zeros(s.C, dtype=int32, device=device),
            "slot_reward": torch.zeros(s.C, device=device),
            "slot_done": torch.zeros(s.C, dtype=torch.uint8, device=device),
            "slot_log_pi": torch.zeros(s.C, device=device),
            "slot_frd": torch.full((s.C, 3), -1, dtype=int32, device=device),
        }
        self.outcome = torch.full((s.C,), -1, dtype=int32, device=device)
        self.counters: Tensors = {
            "per_head": torch.zeros((), dtype=torch.int64, device=device),
            "per_len": torch.zeros((), dtype=torch.int64, device=device),
            "per_max_prio": torch.ones((), device=device),
        }
        self.tree: Tensors = {"per_leaf": torch.zeros(s.C, device=device), "per_tree": torch.zeros(s.C, device=device)}

    def rings(self) -> Rings:
        """The running sums of `slots`."""
        return Rings(self.slots, self._shape.C // self._shape.B)

    def insert(self, step: Tensor, rows: Tensors) -> None:
        """Write one step's rows into the next B slots, with the largest priority so far and no outcome yet.

        Args:
            step: int64 scalar, its number; the slots are (step B + b) mod C.
            rows: by slot name, [B, …].
        """
        written = {**self.slots, "slot_outcome": self.outcome}
        write(written, rows | {"slot_outcome": unjudged(self.outcome, self._shape)}, step, self._specimens)
        count(self.counters, self._shape)
        ops.per_insert(self.tree["per_leaf"], step, self._shape.B, self.counters["per_max_prio"])

    def label(self, step: Tensor, done: Tensor, pnl_e4: Tensor, open_step: Tensor) -> None:
        """Write the outcome of trades that closed into the slots of their steps."""
        ops.assign_labels(self.outcome, step, done, pnl_e4, open_step)

    def draw(self, prng: Tensor, isv: Tensor) -> tuple[Tensor, Tensor]:
        """Rebuild the tree and draw B slots by priority: (per_idx, per_is_weight). `prng` is read, not advanced."""
        rebuild(self.tree["per_leaf"], self.tree["per_tree"], self._specimens)
        return ops.per_sample(self.tree["per_leaf"], self.tree["per_tree"], prng, isv, self.counters["per_len"])

    def gather(self, idx: Tensor) -> Tensors:
        """The drawn rows, under the names of the dataflow."""
        slots = self.slots | {"slot_outcome": self.outcome}
        return {name: slots[slot].index_select(0, idx) for name, slot in GATHERED.items()}

    def update(self, idx: Tensor, row_loss_q: Tensor) -> None:
        """Set the priorities of drawn slots from their losses."""
        ops.per_update(self.tree["per_leaf"], self.counters["per_max_prio"], idx, row_loss_q)


def write(slots: Tensors, rows: Tensors, step: Tensor, specimens: tuple[str, ...]) -> None:
    """Write a step's rows into its slots; `stale_pinned` takes windows home and up again, by a buffer used twice.

    Args:
        slots: [C, …] by name; changed.
        rows: [B, …] by name.
        step: int64 scalar.
        specimens: bugs that are switched on.
    """
    stale = [name for name, x in rows.items() if "stale_pinned" in specimens and x.ndim == 3]
    for name in stale:
        begin = int(step) * rows[name].shape[0] % slots[name].shape[0]
        racy.stale_pinned(slots[name], begin, rows[name].cpu())
    whole = [name for name in rows if name not in stale]
    if whole:
        ops.ring_insert([slots[name] for name in whole], [rows[name] for name in whole], step)


def unjudged(outcome: Tensor, s: Shape) -> Tensor:
    """The outcomes of a step whose trades are still open, int32 [B]."""
    return outcome.new_full((s.B,), -1)


def rebuild(leaf_C: Tensor, tree_C: Tensor, specimens: tuple[str, ...]) -> None:
    """Sum the leaves up to the root, in place; here `per_fence` takes the kernel's place."""
    (racy.per_fence if "per_fence" in specimens else ops.per_rebuild)(leaf_C, tree_C)


def count(counters: Tensors, s: Shape) -> None:
    """Move `per_head` and `per_len` on by one step's rows, in place."""
    counters["per_head"].add_(s.B).remainder_(s.C)
    counters["per_len"].add_(s.B).clamp_(max=s.C)
