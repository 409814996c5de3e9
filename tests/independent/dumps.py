"""Reads a record's Parquet dumps with pyarrow and numpy; nothing of foxflow is imported."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

TICK_E4 = {"ES": 125_000, "US-EQUITY": 100}
"""Worth of a tick in 1e-4 USD: 12.50 at CME, one cent for a share; no fees."""
DTYPES = {"i32": "<i4", "i64": "<i8", "u8": "u1"}
NEEDED = ("lob_cursor", "lob_book", "action", "done", "wrap", "trade_pnl_e4")


class NotEnough(Exception):
    """The record doesn't hold what the count needs."""


@dataclass
class Touches:
    """Best bid and ask of the tape's rows, as far as they were seen."""

    known: dict[int, tuple[int, int]] = field(default_factory=dict)
    contradictions: int = 0

    def learn(self, rows: Any, books: Any) -> None:
        """Books are [n, 4L]: bid prices, bid sizes, ask prices, ask sizes."""
        asks = books.shape[1] // 2
        for row, bid, ask in zip(rows.tolist(), books[:, 0].tolist(), books[:, asks].tolist(), strict=True):
            self.contradictions += self.known.setdefault(row, (bid, ask)) != (bid, ask)

    def at(self, row: int) -> tuple[int, int]:
        if row not in self.known:
            raise NotEnough(f"row {row} of the tape stands in no dumped book: name a record with the tape dumped")
        return self.known[row]


def read_step(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Buffers of one dumped step by name."""
    columns = ["buffer", "dtype", "shape", "data"]
    found = {}
    for row in pq.read_table(path, columns=columns, filters=[("buffer", "in", list(names))]).to_pylist():
        data = np.frombuffer(row["data"], DTYPES[row["dtype"]])
        found[row["buffer"]] = data.reshape(json.loads(row["shape"]))
    return found


@dataclass
class Run:
    """What a record's dumps say."""

    manifest: dict[str, Any]
    folder: Path
    touches: Touches
    steps: dict[str, list[dict[str, Any]]]
    """Phase -> the buffers of each step."""
    cut: int
    rows: int
    window: int

    @property
    def tick_e4(self) -> int:
        name = self.manifest["data"]["instrument"]
        if name not in TICK_E4:
            raise NotEnough(f"what a tick of {name} is worth isn't known here")
        return TICK_E4[name]

    @property
    def train_steps(self) -> int:
        return int(self.manifest["config"]["steps"])


def read(folder: Path, tape_folder: Path | None) -> Run:
    """Read a run: every step, the books seen, and the tape where it was dumped."""
    manifest = json.loads((folder / "manifest.json").read_text())
    config, touches = manifest["config"], Touches()
    train, evaluate = config["steps"], config["eval_steps"]
    files = {
        "train": [folder / f"buffers/step-{t:06d}.parquet" for t in range(train)],
        "eval": [folder / f"buffers/eval-{t:06d}.parquet" for t in range(train, train + evaluate)],
    }
    absent = [path.name for paths in files.values() for path in paths if not path.is_file()]
    if absent:
        raise NotEnough(f"{absent[0]} isn't there: run with --dump-steps 0:{train + evaluate}")
    steps = {phase: [read_step(path, NEEDED) for path in paths] for phase, paths in files.items()}
    for phase, held in steps.items():
        for t, step in enumerate(held):
            lacking = [name for name in NEEDED if name not in step]
            if lacking:
                raise NotEnough(f"{phase} step {t} doesn't hold {', '.join(lacking)}: run with --dump rl")
            touches.learn(step["lob_cursor"], step["lob_book"])
    rows, seal = tape_of(folder)
    if tape_folder is not None and tape_of(tape_folder) != (rows, seal):
        raise NotEnough(f"{tape_folder.name} is of another tape")
    for place in (folder, tape_folder):
        path = place and place / "buffers/step-000000.parquet"
        if path and (tape := read_step(path, ("tape_book",))):
            touches.learn(np.arange(rows), tape["tape_book"])
    return Run(manifest, folder, touches, steps, rows * 4 // 5, rows, int(config["shape"]["T"]))


def tape_of(folder: Path) -> tuple[int, str]:
    """Rows and digest of the tape, from the table of digests."""
    wanted = [("buffer", "=", "tape_book"), ("step", "=", 0)]
    found = pq.read_table(folder / "digests.parquet", columns=["shape", "digest"], filters=wanted).to_pylist()
    if not found:
        raise NotEnough(f"{folder.name} says nothing of its tape: run with --record all")
    return json.loads(found[0]["shape"])[0], found[0]["digest"]
