"""The decision tree of the trainer's design note: the sub-case at the first step with a difference."""

from __future__ import annotations

from foxflow import flow
from foxflow.explanation.dataflow import Dataflow

PER, GATHER, ENCODER, HEADS, LOSSES, HEAD_BWD, ENCODER_BWD = 22, 24, 27, 31, 35, 37, 39
"""First rows of parts of the dataflow."""
SUMS, REDUCED, WORLD, WEIGHTS = 41, 42, 7, 2


def case(comparison: flow.Comparison, dataflow: Dataflow) -> str | None:
    """Name the sub-case; None for another dataflow than the reference trainer's, and where nothing differs."""
    if not dataflow.is_reference():
        return None
    bad = next((s for s in comparison.steps if any(g.verdict == flow.DIVERGE for g in s.groups)), None)
    if bad is None:
        return None
    differing = [(b.order, b.name, b.k) for g in bad.groups for b in g.buffers if b.verdict == flow.DIVERGE]
    _, name, k = min(differing)
    entry = dataflow.of(name, k)
    if entry is None:
        return None
    groups = [g.group for g in bad.groups if g.verdict == flow.DIVERGE]
    phase = "" if bad.phase == flow.TRAIN else f"{bad.phase} "
    place = f"{phase}step {bad.step} ({', '.join(sorted(groups))} differ, {name} first)"
    return f"{_words(entry.row, bad.step, groups)}, at {place}"


def _words(row: int, step: int, groups: list[str]) -> str:
    if row < WEIGHTS:
        return "X first: loader or file"
    if row < WORLD:
        return "K or W as the run starts: initialisation" if step == 0 else "(5) all EQUAL, yet weights differ: Adam"
    if row < PER:
        return "A-F first: the RL loop"
    if row < GATHER:
        return "(1) PER: tree or draw" + (", then G" if "G" in groups else "")
    if row < ENCODER:
        return "(1) G: gather from replay"
    if row < HEADS:
        return "(1) G by sampled_h alone: encoder forward, not PER"
    if row < LOSSES:
        return "(2) H with G EQUAL: head forward" if "G" not in groups else "(2) head forward, then G"
    if row < HEAD_BWD + 2:
        return "(3) J with G and H EQUAL: head backward, or that head's targets and losses"
    if row < SUMS:
        return "(4) I with J EQUAL: encoder backward"
    return "(5) all EQUAL up to the gradients: sums of products" if row < REDUCED else "(5) all EQUAL up to R: reduce"
