"""Does a run's fingerprint depend on where it is computed? One config in every cell of a matrix, each a fresh process.

The cells are interpreters (each with a torch of its own) × devices × CPU threads × SIMD levels. The first cell that ran
is what the others are held against; what differs is named by its first buffer, from the records.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.errors import FoxflowError, Mistake, must
from foxflow.experiments.rerun import launch
from foxflow.provenance import processor_flags

SIMD_FLAGS = {
    "plain": (),
    "avx2": ("avx2", "fma"),
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
}
"""SIMD level -> what the processor must offer; as in cuda_ext/simd.h."""
SHORT = ("--steps", "4", "--eval-steps", "1")
"""Of a cell's run where no size is asked for: a trade has closed and its label was learnt from."""
SIZES = ("--quick", "--preset", "--steps", "--eval-steps", "--stop-at")

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Where one run is computed."""

    python: str
    device: str
    threads: int
    simd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a cell."""

    cell: Cell
    verdict: str
    """EQUAL or DIVERGED against the first cell that ran; INCOMPLETE where it did not run or has no fingerprint."""
    reason: str | None = None
    torch: str | None = None
    fingerprint: str | None = None
    record: str | None = None
    first: flow.Where | None = None


def matrix(pythons: Sequence[str], devices: Sequence[str], threads: Sequence[int], simd: Sequence[str]) -> list[Cell]:
    """Every combination; what is left empty takes what this machine has.

    Raises:
        Mistake: a word is no device, SIMD level, number of threads or interpreter.
    """
    for option, words, allowed in (("--device", devices, ("cpu", "cuda")), ("--simd", simd, tuple(SIMD_FLAGS))):
        for word in words:
            if word not in allowed:
                raise must(option, f"be {' or '.join(allowed)}, joined by commas", repr(word))
    for path in pythons:
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            raise must("--python", "name an interpreter", repr(path), "Give its full path.")
    cells = itertools.product(
        dict.fromkeys([sys.executable, *pythons]),
        dict.fromkeys(devices or devices_here()),
        dict.fromkeys(threads or sorted({1, 2, len(os.sched_getaffinity(0))})),
        dict.fromkeys(simd or simd_here()),
    )
    return [Cell(python=path, device=device, threads=count, simd=level) for path, device, count, level in cells]


def devices_here() -> list[str]:
    """The devices that this interpreter can compute on."""
    import torch

    from foxflow import ops

    return ["cpu", "cuda"] if torch.cuda.is_available() and ops.has_cuda() else ["cpu"]


def simd_here() -> list[str]:
    """The SIMD levels of this processor."""
    flags = processor_flags()
    return [level for level, needed in SIMD_FLAGS.items() if flags.issuperset(needed)]


def invariance(
    cells: Sequence[Cell], seed: int, run_options: Sequence[str], folder: Path, note: Note
) -> tuple[Ran, ...]:
    """Run one config in every cell and hold the fingerprints against the first one.

    Args:
        cells: of `matrix`.
        seed: of every run.
        run_options: of `foxflow run`, given to every run; a short run where they state no size.
        folder: for the records; made if absent.
        note: called with a line for each cell.

    Returns:
        A result for each cell; one that could not run is INCOMPLETE and says why.

    Raises:
        Mistake: the options of the run are refused on the CPU, so no cell can be to blame.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stated = any(word.partition("=")[0] in SIZES for word in run_options)
    words = ["run", "--seed", str(seed), *(() if stated else SHORT), *run_options, "--track", "none", "--dump", "none"]
    found: list[Ran] = []
    for number, cell in enumerate(cells):
        ran = _ran(cell, [*words, "--run-name", f"cell-{number}"], folder)
        reference = next((one for one in found if one.fingerprint), None)
        if reference and ran.fingerprint and ran.fingerprint != reference.fingerprint:
            ran = _apart(reference, ran)
        found.append(ran)
        note(" ".join(_row(ran)))
    return tuple(found)


def _ran(cell: Cell, words: Sequence[str], folder: Path) -> Ran:
    if cell.simd not in simd_here():
        return Ran(cell=cell, verdict=flow.INCOMPLETE, reason=f"this processor has no {cell.simd}")
    options = ["--device", cell.device, "--threads", str(cell.threads)]
    try:
        said = launch([*words, *options], folder, {"FOXFLOW_SIMD": cell.simd}, cell.python)
    except Mistake as mistake:
        if cell.device == "cpu" and cell.python == sys.executable:
            raise
        return Ran(cell=cell, verdict=flow.INCOMPLETE, reason=str(mistake))
    except FoxflowError as error:
        return Ran(cell=cell, verdict=flow.INCOMPLETE, reason=str(error))
    record = folder / said["record"]
    torch = json.loads((record / "manifest.json").read_text(encoding="utf-8"))["environment"]["torch"]
    ran = Ran(cell=cell, verdict=flow.EQUAL, torch=torch, fingerprint=said["fingerprint"], record=str(record))
    if ran.fingerprint is None:
        return replace(ran, verdict=flow.INCOMPLETE, reason="nothing was digested, so there is no fingerprint")
    return ran


def _apart(reference: Ran, ran: Ran) -> Ran:
    """The first buffer in which a cell departs."""
    from foxflow.comparison import compare
    from foxflow.record import open_record

    a, b = (open_record(str(one.record)) for one in (reference, ran))
    comparison = compare(a, b, allow=("source",))
    return replace(ran, verdict=flow.DIVERGED, first=comparison.first, reason=comparison.reason)


def overall(ran: Sequence[Ran]) -> str:
    """DIVERGED where a cell differs; INCOMPLETE where one could not run or fewer than two did; else EQUAL."""
    found = [one.verdict for one in ran]
    if flow.DIVERGED in found:
        return flow.DIVERGED
    return flow.EQUAL if len(found) > 1 and set(found) == {flow.EQUAL} else flow.INCOMPLETE


def as_json(ran: Sequence[Ran]) -> dict[str, Any]:
    """What `foxflow invariance --json` prints."""
    from foxflow.comparison import first_as_json

    return {
        "verdict": overall(ran),
        "cells": [
            {
                "device": one.cell.device,
                "threads": one.cell.threads,
                "simd": one.cell.simd,
                "python": one.cell.python,
                "torch": one.torch,
                "fingerprint": one.fingerprint,
                "verdict": one.verdict,
                "first": first_as_json(one.first),
                "reason": one.reason,
                "record": one.record,
            }
            for one in ran
        ],
    }


def as_text(ran: Sequence[Ran]) -> str:
    """One table, a line a cell, and the verdict."""
    rows = [("device", "threads", "simd", "torch", "fingerprint", "verdict"), *map(_row, ran)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    counts = [f"{sum(one.verdict == verdict for one in ran)} {verdict}" for verdict in _verdicts(ran)]
    return "\n".join([*lines, f"{overall(ran)}: {', '.join(counts)} of {len(ran)} cells"])


def _verdicts(ran: Sequence[Ran]) -> list[str]:
    return list(dict.fromkeys(one.verdict for one in ran))


def _row(ran: Ran) -> tuple[str, ...]:
    says = ran.verdict
    if ran.first is not None:
        says += f" from {ran.first.place}"
    elif ran.reason:
        says += f": {ran.reason}"
    cell = ran.cell
    return (cell.device, str(cell.threads), cell.simd, ran.torch or "-", ran.fingerprint or "-", says)
