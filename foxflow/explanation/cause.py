"""From a root to its cause: the table of docs/explain.md, the first line that applies."""

from __future__ import annotations

from dataclasses import dataclass

from foxflow import flow
from foxflow.explanation.elements import Detail
from foxflow.explanation.roots import Found

CERTAIN, LIKELY, OPEN = "certain", "likely", "open"

STARTS = {
    "splitmix": ("rng", "a generator's state differs as the run starts: it was seeded differently"),
    "env_reset": ("rng", "the world differs as the run starts: its reset drew differently"),
    "load_tape": ("input", "data has no producer: the loader or its file differs"),
    "config": ("environment", "what the configuration sets differs as the run starts"),
    "zeros": ("stale-state", "what starts from zeros differs as the run starts: something was left in it"),
    "ones": ("stale-state", "what starts from ones differs as the run starts: something was left in it"),
}
"""Start or producer without inputs -> cause and rule."""

INIT = "init_"
HARDWARE = frozenset(f"environment.{key}" for key in ("device", "torch", "cuda", "machine", "cpu_capability"))
THREADS = "environment.threads"
CODE = ("config", "source", "arithmetic")

GROUPS = {
    "inputs": ("input", "an input differs"),
    "rng": ("rng", "a generator's state differs"),
    "X": ("input", "data differs"),
}
"""Group of a buffer without dataflow -> cause and rule."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A cause, how sure it is, and the rule that led to it."""

    cause: str
    confidence: str
    rule: str


def judged(root: Found, comparison: flow.Comparison, detail: Detail | None, retyped: bool) -> Judged:
    """Name the cause of a root.

    Args:
        root: where it began.
        comparison: for what differs of the two environments, configurations and sources.
        detail: what its dumps say; None without dumps.
        retyped: its dtype is another in B.
    """
    if retyped:
        return Judged("precision", CERTAIN, "the dtype differs though all inputs are EQUAL")
    found = _of_entry(root, comparison, detail)
    if not root.unrecorded:
        return found
    return Judged(found.cause, OPEN, "an input was not captured: the kernel began it, or what made that input")


def _of_entry(root: Found, comparison: flow.Comparison, detail: Detail | None) -> Judged:
    if root.entry is None:
        return _undeclared(root)
    made = root.entry.made_by(root.start)
    if root.kept_before:
        cause = "bit-flip" if detail is not None and detail.one_bit else "unknown"
        return Judged(cause, LIKELY, "nothing writes the buffer once it is there, and it was EQUAL before")
    seeds = [name for name, _, _ in comparison.unlike if name == "seed"]
    if root.start and made.startswith(INIT):
        if seeds:
            return Judged("rng", CERTAIN, "the two runs have different seeds")
        return Judged("unseeded-init", CERTAIN, "weights differ as step 0 starts: they were initialised unseeded")
    if (root.start or not root.entry.inputs) and made in STARTS:
        return Judged(STARTS[made][0], CERTAIN, STARTS[made][1])
    return _kernel(root, comparison, detail)


def _undeclared(root: Found) -> Judged:
    where = root.largest[0]
    if root.equal:
        return Judged("unknown", OPEN, "the dataflow does not hold the buffer")
    rule = "no dataflow was recorded: the first difference in recorded order"
    if where.group in ("weights", "state", "W") and where.step == 0:
        return Judged("unseeded-init", OPEN, f"{rule}; it differs as step 0 starts")
    cause, words = GROUPS.get(where.group, ("race", "something made it differ in that step"))
    return Judged(cause, OPEN, f"{rule}; {words}")


def _kernel(root: Found, comparison: flow.Comparison, detail: Detail | None) -> Judged:
    unlike = [name for name, _, _ in comparison.unlike if name.split(".")[0] in CODE]
    if unlike:
        return Judged("unknown", LIKELY, f"inputs EQUAL, yet the runs' {', '.join(unlike)} differ")
    if detail is not None and detail.one_bit and len(root.places) == 1:
        return Judged("bit-flip", LIKELY, "inputs EQUAL, and one bit of one element differs, once")
    others = {name for name, _, _ in comparison.environment}
    hardware = sorted(name.removeprefix("environment.") for name in others & HARDWARE)
    if detail is not None and detail.rounding and THREADS in others and not hardware:
        return Judged("thread-count", LIKELY, "inputs EQUAL, differences of rounding size, and other threads")
    if hardware and (detail is None or detail.rounding):
        return Judged("environment", LIKELY, f"inputs EQUAL, and the runs' {', '.join(hardware)} differ")
    if detail is not None and detail.permuted:
        return Judged("order", LIKELY, "inputs EQUAL, and the same elements come in another order")
    if detail is not None and detail.rounding:
        return Judged(
            "order", LIKELY, f"{_inputs_equal(root)}, and every difference is of rounding size: a sum's order"
        )
    again = len(root.places) > 1
    rule = f"{_inputs_equal(root)}: its kernel is nondeterministic" + (", for it comes back" if again else "")
    return Judged("race", CERTAIN if again else LIKELY, rule)


def _inputs_equal(root: Found) -> str:
    """The line of the table: by where the kernel stands."""
    entry = root.entry
    if entry is not None and entry.at == "s":
        return "a state differs as a step starts and all that updated it is EQUAL, so its update is accused"
    if entry is not None and entry.group == "R":
        return "a reduced gradient differs and all that it is summed from is EQUAL"
    return "inputs EQUAL"
