"""Roots in words: one sentence each, and the evidence."""

from __future__ import annotations

from collections.abc import Iterable

from foxflow import flow
from foxflow.explanation.cause import Judged
from foxflow.explanation.roots import Found

NAMES = 4
"""Names that are listed before the rest is counted."""

MEANS = {
    "race": "{producer} gives another result from the same inputs",
    "unseeded-init": "{producer} drew other values, so it is not seeded by the run's seed",
    "rng": "{producer} began from another state of its generator",
    "input": "the two runs did not read the same data",
    "order": "{producer} adds or arranges the same numbers in another order",
    "thread-count": "{producer} rounds otherwise with another number of threads",
    "stale-state": "{producer} did not clear what was there before",
    "precision": "{producer} computes in another precision",
    "bit-flip": "one bit changed without a reason in the dataflow",
    "environment": "{producer} depends on the environment or configuration, and the two differ",
    "unknown": "the records don't tell why",
}


def sentence(root: Found, judgement: Judged, last_state: int | None) -> str:
    """Name the place, the producer, what it means, and when it wakes."""
    where, _ = root.largest
    producer = producer_of(root)
    said = f"{where.buffer} (group {where.group}) differs {place(where, root)}"
    if root.unrecorded:
        said += f", and of what it was made from {names(root.unrecorded)} was not captured"
        accused = f"{producer} or {names(root.unrecorded)}"
        return f"{said}: {accused} began it.{_sleep(root, last_state)}"
    if root.entry is None:
        said += ", the first buffer in recorded order" if not root.equal else ""
    elif root.equal:
        said += (
            f" though all {root.equal} inputs of {producer} are EQUAL"
            if root.equal > 1
            else (f" though the input of {producer} is EQUAL")
        )
    again = f", and again at {counted(len(root.places) - 1, 'later place')}" if len(root.places) > 1 else ""
    meaning = MEANS.get(judgement.cause, MEANS["unknown"]).format(producer=producer)
    return f"{said}{again}: {meaning}.{_sleep(root, last_state)}"


def producer_of(root: Found) -> str:
    """What made the buffer, in words."""
    return "its producer" if root.entry is None else root.entry.made_by(root.start)


def place(where: flow.Where, root: Found) -> str:
    """Step and iteration in words."""
    if where.phase == flow.FINAL:
        return "in the closing snapshot"
    step = f"step {where.step}" if where.phase == flow.TRAIN else f"evaluation step {where.step}"
    if where.k is not None:
        return f"at {step}, k {where.k}"
    begins = root.entry is not None and root.entry.at == "s"
    return f"as {step} starts" if begins else f"at {step}"


def dormant(root: Found, last_state: int | None) -> bool:
    """Whether nothing but the root itself differed as the next step started, as far as that was recorded."""
    if root.woke is not None:
        return root.woke > root.step
    return root.entry is not None and last_state is not None and last_state > root.step


def _sleep(root: Found, last_state: int | None) -> str:
    if not dormant(root, last_state):
        return ""
    if root.woke is not None:
        return f" It stays dormant, changing no state but itself, until step {root.woke} wakes it."
    steps = (last_state or 0) - root.step
    return f" It is dormant: it has not woken within {counted(steps, 'step')}."


def evidence(root: Found, comparison: flow.Comparison, forms: tuple[str, ...]) -> tuple[str, ...]:
    """What speaks for the judgement, a line each."""
    where, _ = root.largest
    lines = [f"{counted(root.equal, 'input')} captured and EQUAL"] if root.entry is not None and root.equal else []
    if root.unrecorded:
        lines.append(f"not captured: {names(root.unrecorded)}")
    if root.entry is not None and not root.equal and not root.unrecorded:
        lines.append(f"nothing was computed before it: {producer_of(root)} has no recorded inputs there")
    if len(root.places) > 1:
        lines.append(f"begins anew at {len(root.places)} places: {_spans(step for _, step, _ in root.places)}")
    lines += list(forms)
    measured = next((m for m in root.measured if m[0].buffer == where.buffer), next(iter(root.measured), None))
    if measured is not None:
        lines.append(_measure(*measured))
    if root.follower is not None:
        lines.append(
            f"{counted(root.followers, 'differing buffer')} behind it, the first {root.follower.buffer} "
            f"{place(root.follower, root) if root.follower.k is not None else f'at step {root.follower.step}'}"
        )
    lines += [f"{name}: {one} in A, {other} in B" for name, one, other in (*comparison.unlike, *comparison.environment)]
    return tuple(lines)


def _measure(where: flow.Where, diff: flow.BufferDiff) -> str:
    ulp = "" if diff.max_ulp is None else f", {diff.max_ulp} ULP"
    largest = f"{diff.max_abs:.6g}" if isinstance(diff.max_abs, float) else diff.max_abs
    first = "" if diff.first_index is None else f", first at {list(diff.first_index)}"
    k = "" if where.k is None else f", k {where.k}"
    return (
        f"{diff.name} at step {where.step}{k}: {diff.differing} of {diff.elements} elements differ, "
        f"max|Δ| {largest}{ulp}{first}"
    )


def counted(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def names(listed: tuple[str, ...]) -> str:
    """A few names, the rest counted."""
    more = f" and {len(listed) - NAMES} more" if len(listed) > NAMES else ""
    return ", ".join(listed[:NAMES]) + more


def _spans(steps: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for step in sorted(set(steps)):
        if spans and step == spans[-1][1] + 1:
            spans[-1][1] = step
        else:
            spans.append([step, step])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return f"steps {names(tuple(texts))}" if len(spans) > 1 or spans[0][0] != spans[0][1] else f"step {texts[0]}"
