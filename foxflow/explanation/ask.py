"""What to record next, where the records can't tell."""

from __future__ import annotations

from foxflow import flow
from foxflow.config import DUMP_FLAGS
from foxflow.explanation.cause import CERTAIN, OPEN
from foxflow.explanation.dataflow import Dataflow
from foxflow.explanation.roots import Found

LEFT_OUT = "MI"
"""Groups without digests at --record light."""
BY_DEFAULT = ("mamba_a_state", "mamba_b_state")
"""Digested only where they are dumped."""


def ask(root: Found, confidence: str, dataflow: Dataflow) -> str | None:
    """What would decide an open root; for a likely one without dumps, what would show the size of its differences."""
    where, _ = root.largest
    if not dataflow.is_reference():
        return None if confidence == CERTAIN else _plainly(root)
    steps = f"--dump-steps {where.step}:{where.step + 1}"
    if confidence == OPEN and root.unrecorded:
        groups = _groups(root.unrecorded, dataflow)
        dumped = [name for name in root.unrecorded if name in BY_DEFAULT]
        words = ["--record all"] if set(groups) & set(LEFT_OUT) and len(dumped) < len(root.unrecorded) else []
        words += [f"--dump {_flag(groups)} --dump-k {steps}"]
        return f"does {' or '.join(root.unrecorded)} differ? Run both again with {' '.join(words)}"
    if confidence != CERTAIN and not root.measured and where.phase == flow.TRAIN:
        inner = " --dump-k" if where.k is not None else ""
        dump = f"--dump {_flag((where.group,))}{inner} {steps}"
        return f"how far is {where.buffer} apart: by rounding, by one bit, by more? Run both again with {dump}"
    return None


def _plainly(root: Found) -> str | None:
    if root.unrecorded:
        return f"record {', '.join(root.unrecorded)} too"
    return "declare a dataflow, so that inputs of the first difference are known" if root.entry is None else None


def _groups(names: tuple[str, ...], dataflow: Dataflow) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.group for e in dataflow if e.buffer in names))


def _flag(groups: tuple[str, ...]) -> str:
    """The flags of --dump that keep the bytes of some groups."""
    flags = [next(flag for flag, letters in DUMP_FLAGS.items() if group in letters) for group in groups]
    return "all" if "all" in flags else ",".join(dict.fromkeys(flags))
