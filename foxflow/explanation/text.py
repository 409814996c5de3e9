"""An explanation as JSON by the contract, and as text for a terminal."""

from __future__ import annotations

from typing import Any

from foxflow import flow
from foxflow.explanation.opening import comparison_json

ROOTS = 12
"""Roots that are told in full on a terminal."""
TOP = ("cause", "producer", "rule", "sentence", "evidence")
"""Of the first root, repeated at the top."""


def as_json(explanation: flow.Explanation) -> dict[str, Any]:
    """The contract of `explain`: that of `compare`, the roots, the sub-case, and what to record next.

    At the top stands the first root; without roots its fields are null, but for the sentence, which says why.
    """
    roots = [_root(root) for root in explanation.roots]
    first = {name: roots[0][name] if roots else None for name in TOP}
    return {
        **comparison_json(explanation.comparison),
        "roots": roots,
        **first,
        "sentence": explanation.sentence,
        "case": explanation.case,
        "ask": list(explanation.ask),
    }


def _root(root: flow.Root) -> dict[str, Any]:
    where = root.where
    return {
        "step": where.step,
        **({} if where.phase == flow.TRAIN else {"phase": where.phase}),
        "k": where.k,
        "group": where.group,
        "buffer": where.buffer,
        "cause": root.cause,
        "confidence": root.confidence,
        "producer": root.producer or None,
        "rule": root.rule,
        "sentence": root.sentence,
        "evidence": list(root.evidence),
        "wakes_at": root.wakes_at,
        "also": list(root.also),
        "repeats": root.repeats,
    }


def as_text(explanation: flow.Explanation) -> str:
    """The verdict, then each root: its sentence, cause, rule and evidence; the sub-case; what to record next."""
    found = explanation.comparison
    lines = [f"{found.verdict}: {found.compared} compared, {found.differing} differing, {found.missing} missing"]
    lines += [found.reason] if found.reason is not None else []
    if not explanation.roots:
        lines.append(explanation.sentence)
    for number, root in enumerate(explanation.roots[:ROOTS], 1):
        lines += _told(number, root)
    if len(explanation.roots) > ROOTS:
        lines.append(f"… and {len(explanation.roots) - ROOTS} more roots")
    lines += [f"case  {explanation.case}"] if explanation.case is not None else []
    lines += [f"ask   {words}" for words in explanation.ask]
    return "\n".join(lines)


def _told(number: int, root: flow.Root) -> list[str]:
    lines = [f"root {number}  {root.sentence}", f"  cause  {root.cause} ({root.confidence})", f"  rule   {root.rule}"]
    lines += [f"  also   {', '.join(root.also)}"] if root.also else []
    return lines + [f"  -      {line}" for line in root.evidence]
