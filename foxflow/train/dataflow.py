"""The dataflow of the trainer: every buffer, its group, dtype and axes, its producers and what those read.

The table exists once, in foxflow/train/table.py; records, comparisons and explanations read it through the manifest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from foxflow.config import Shape
from foxflow.train.table import lines

RINGS = "slot_"
"""Buffers of this prefix are the replay ring: digested by their changed rows."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One buffer of the dataflow."""

    name: str
    row: int
    group: str
    at: str
    """s, e, k or l: as the step starts, once computed, in each iteration, after the inner loop."""
    dtype: str
    axes: tuple[str, ...]
    starts: str | None
    """What makes it at step 0, where its producers read the step before."""
    producers: tuple[str, ...]
    inputs: tuple[str, ...]
    """Names; a trailing `-` means the step before, `~` the iteration before."""

    def shape(self, sizes: Shape, rows: int) -> tuple[int, ...]:
        """Its sizes, given the axes and the number of rows of the tape."""
        return tuple(_size(axis, sizes, rows) for axis in self.axes)


def _size(axis: str, sizes: Shape, rows: int) -> int:
    """Evaluate `4*L`, `T+1`, `128` or `n` (rows of the tape)."""
    terms = [
        [rows if f == "n" else int(f) if f.isdigit() else int(getattr(sizes, f)) for f in term.split("*")]
        for term in axis.split("+")
    ]
    total = 0
    for factors in terms:
        product = 1
        for factor in factors:
            product *= factor
        total += product
    return total


@cache
def buffers(shape: Shape) -> tuple[Buffer, ...]:
    """Every buffer in the order in which a step captures it; rows of the inner loop once."""
    parsed = [buffer for line in lines(shape) for buffer in _parse(line)]
    by_row: dict[str, list[str]] = {}
    for buffer in parsed:
        by_row.setdefault(f"#{buffer.row}", []).append(buffer.name)
    expanded = [_expand(buffer, by_row) for buffer in parsed]
    return tuple(sorted(expanded, key=lambda buffer: "sekl".index(buffer.at)))


def _parse(line: str) -> list[Buffer]:
    row, group, at, flow, names = (part.strip() for part in line.split("|"))
    makers, _, inputs = flow.partition("<-")
    start, later, producers = makers.rpartition(">")
    pairs = re.findall(r"(\S+) (\w+)\[([^\]]*)\]", names)
    return [
        Buffer(
            name,
            int(row),
            group,
            at,
            dtype,
            tuple(filter(None, axes.split(","))),
            start.strip() if later else None,
            tuple(part.strip() for part in producers.split(",")),
            tuple(inputs.split()),
        )
        for name, dtype, axes in pairs
    ]


def _expand(buffer: Buffer, by_row: dict[str, list[str]]) -> Buffer:
    """Replace `#row` by the row's buffers."""
    inputs: list[str] = []
    for name in buffer.inputs:
        mark = name[-1] if name[-1] in "-~" else ""
        inputs += [f"{each}{mark}" for each in by_row.get(name.rstrip("-~"), [name.rstrip("-~")])]
    return replace(buffer, inputs=tuple(dict.fromkeys(inputs)))


def as_json(shape: Shape) -> list[dict[str, object]]:
    """The dataflow as the manifest holds it, in order."""
    return [
        {
            "buffer": b.name,
            "group": b.group,
            "row": b.row,
            "at": b.at,
            "starts": b.starts,
            "producers": list(b.producers),
            "inputs": list(b.inputs),
        }
        for b in buffers(shape)
    ]
