"""The command that looks at what one run recorded: `show`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from foxflow.cli.arguments import Json, Run, records
from foxflow.errors import must

if TYPE_CHECKING:
    from foxflow.comparison.looking import Sight

Steps = Annotated[str | None, typer.Option("--steps", help="FIRST:END of train steps to show; all by default.")]


def show(
    run_name: Run,
    buffer: Annotated[str | None, typer.Argument(help="A buffer's name; without it the buffers are listed.")] = None,
    steps: Steps = None,
    as_json: Json = False,
) -> int:
    """List what a run recorded, or show one buffer: shape, dtype, digest of each step, statistics and a picture."""
    from foxflow.comparison import looking

    (record,) = records(run_name)
    if buffer is None:
        listed = looking.groups(record)
        typer.echo(json.dumps({"groups": listed}) if as_json else groups_text(listed))
        return 0
    first, end = _span(steps)
    sights = (one for one in looking.look(record, buffer) if first <= one.step < end)
    if as_json:
        typer.echo(json.dumps({"buffer": buffer, "captures": [asdict(one) for one in sights]}))
        return 0
    for one in sights:
        typer.echo(sight_text(one))
    return 0


def _span(steps: str | None) -> tuple[int, float]:
    if steps is None:
        return 0, float("inf")
    first, colon, end = steps.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise must("--steps", "be FIRST:END", repr(steps), "Write --steps 0:4 for the first four.")
    return int(first), int(end)


def groups_text(groups: dict[str, dict[str, int]]) -> str:
    """A line a buffer, below its group."""
    lines = []
    for group, buffers in groups.items():
        lines.append(f"group {group}")
        lines += [f"  {buffer:32} {captures:8} captures" for buffer, captures in buffers.items()]
    return "\n".join(lines)


def sight_text(one: Sight) -> str:
    """A line, and where the bytes are kept three more kinds: statistics, a warning, the picture."""
    where = f"{one.phase} {one.step}" + ("" if one.k is None else f" k{one.k}")
    lines = [f"{where:16} {one.dtype:5} {json.dumps(one.shape):16} {one.digest}"]
    values = one.values
    if values is None:
        return lines[0]
    if values.smallest is None:
        facts = "no finite value"
    else:
        facts = (
            f"min {values.smallest:.6g}  max {values.largest:.6g}  mean {values.mean:.6g}  std {values.deviation:.6g}"
        )
    lines.append(f"  {values.elements} elements  {facts}  zero {values.zeros}  not finite {values.nonfinite}")
    if not values.sound:
        lines.append("  CORRUPT: these bytes do not match the digest")
    return "\n".join([*lines, *(f"  |{row}" for row in values.picture)])
