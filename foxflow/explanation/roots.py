"""The roots that a walk found: where each began, how often it came back, what followed, and when it woke."""

from __future__ import annotations

from dataclasses import dataclass, field

from foxflow import flow
from foxflow.digest import DTYPES
from foxflow.explanation.dataflow import Entry
from foxflow.explanation.layout import Place
from foxflow.explanation.view import View

MEASURED = 16
"""Measured differences that are kept of each root."""


@dataclass(slots=True)
class Found:
    """One producer that began a divergence, once or again."""

    bit: int
    entry: Entry | None
    """None where the dataflow does not hold the buffer."""
    start: bool
    """Made by what its entry starts from, not by its producers."""
    first: list[tuple[flow.Where, flow.BufferDiff]]
    """Its differing outputs at the first place."""
    equal: int
    """Inputs that were captured and EQUAL at the first place."""
    kept_before: bool = False
    """It was captured before, and EQUAL, and nothing writes it."""
    unrecorded: tuple[str, ...] = ()
    """Inputs that were not captured at any place where it began."""
    places: dict[tuple[str, int, int | None], None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    measured: list[tuple[flow.Where, flow.BufferDiff]] = field(default_factory=list)
    followers: int = 0
    follower: flow.Where | None = None
    """The first of them."""
    woke: int | None = None
    """The step in whose course it first changed state beyond itself."""

    @property
    def largest(self) -> tuple[flow.Where, flow.BufferDiff]:
        """Its largest output at the first place, the first of equals."""
        return max(self.first, key=lambda output: bytes_of(output[1]))

    @property
    def step(self) -> int:
        """The step of the first place."""
        return self.first[0][0].step


@dataclass(frozen=True, slots=True)
class Origin:
    """What a walk knows of a place that begins a divergence."""

    entry: Entry | None
    start: bool
    equal: int
    unrecorded: tuple[str, ...] = ()
    kept_before: bool = False

    def producer(self, name: str) -> object:
        """What tells one producer from another: at the start its inputs play no part."""
        if self.entry is None:
            return name
        e = self.entry
        return (e.row, e.starts) if self.start else (e.row, e.producers, e.inputs)


class Roots:
    """Roots by producer, in the order in which the walk met them."""

    def __init__(self) -> None:
        self._known: dict[object, Found] = {}
        self.last_state: int | None = None
        """The last step of which the state at its start was recorded."""

    def found(self) -> list[Found]:
        """All roots."""
        return list(self._known.values())

    def begin(self, view: View, place: Place, origin: Origin) -> int:
        """Note that a divergence begins at a place.

        Returns:
            The root's bit; the one it had if its producer began a divergence before.
        """
        key, where, diff = origin.producer(place[0]), view.where(place), view.apart[place]
        root = self._known.get(key)
        if root is None:
            bit = 1 << len(self._known)
            root = Found(bit, origin.entry, origin.start, [], origin.equal, origin.kept_before, origin.unrecorded)
            self._known[key] = root
        elif not origin.unrecorded:
            root.unrecorded = ()
        root.places[view.at[0], view.at[1], place[1]] = None
        root.names.add(place[0])
        if len(root.places) == 1:
            root.first.append((where, diff))
        if diff.differing is not None and len(root.measured) < MEASURED:
            root.measured.append((where, diff))
        return root.bit

    def follow(self, view: View) -> None:
        """Count a step's followers, and see which roots have changed state beyond themselves."""
        for place, bits in view.bits.items():
            for root in self._in(bits):
                if place[0] in root.names and (view.at[0], view.at[1], place[1]) in root.places:
                    continue
                root.followers += 1
                root.follower = root.follower or view.where(place)

    def wake(self, view: View, states: list[Place]) -> None:
        """Note the roots of which a state other than themselves differs as a step starts."""
        for place in states:
            for root in self._in(view.bits.get(place, 0)):
                if root.woke is None and place[0] not in root.names:
                    root.woke = max(view.at[1] - 1, root.step)

    def _in(self, bits: int) -> list[Found]:
        return [root for root in self._known.values() if bits & root.bit] if bits else []


def bytes_of(diff: flow.BufferDiff) -> int:
    """Size of a buffer."""
    return diff.elements * DTYPES[diff.dtype][1] if diff.dtype in DTYPES else diff.elements
