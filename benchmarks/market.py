"""Rows a second of the market readers, on enlarged copies of two real files.

Run: python benchmarks/market.py DATA_FOLDER

DATA_FOLDER holds dbn/ and lobster/ with the files named below; the copies are written to a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from foxflow.market.data import load

_ROWS = 1_000_000
_STEP_NS = 20_000


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copies = {"dbn": enlarged_dbn(data, Path(folder)), "lobster": enlarged_lobster(data, Path(folder))}
        for name, path in copies.items():
            seconds, rows = [], 0
            for _ in range(3):
                start = time.perf_counter()
                tape = load(path)
                seconds.append(time.perf_counter() - start)
                rows = len(tape.ts) + sum(n for _, n in tape.dropped)
            print(f"{name}: {rows} rows, {rows / min(seconds):,.0f} rows/s, best of {len(seconds)}")


def enlarged_dbn(data: Path, folder: Path) -> Path:
    """The ES file's records again and again, 20 µs apart, in two zstd frames."""
    source = data / "dbn" / "esh4_20231225_mbp-10_from_mbo.dbn.zst"
    with pa.input_stream(str(source), compression="zstd") as stream:
        raw = stream.read()
    head = 8 + int.from_bytes(raw[4:8], "little")
    records = np.frombuffer(raw[head:], np.uint8).reshape(-1, 368)
    many = np.tile(records, (-(-_ROWS // len(records)), 1))[:_ROWS].copy()
    first = many[:1, 32:40].copy().view("<i8")
    many[:, 32:40] = (first + np.arange(_ROWS)[:, None] * _STEP_NS).view(np.uint8)
    zstd = pa.Codec("zstd")
    path = folder / source.name
    path.write_bytes(zstd.compress(raw[:head], asbytes=True) + zstd.compress(many.tobytes(), asbytes=True))
    return path


def enlarged_lobster(data: Path, folder: Path) -> Path:
    """The GOOG pair's rows again and again, 20 µs apart."""
    source = data / "lobster" / "GOOG_2012-06-21_34200000_57600000_orderbook_10.csv"
    book = source.read_text().splitlines(keepends=True)
    events = [
        line.split(",", 1)[1] for line in Path(str(source).replace("orderbook", "message")).read_text().splitlines()
    ]
    path = folder / source.name
    path.write_text("".join(book * -(-_ROWS // len(book))))
    times = (34_200 * 10**9 + i * _STEP_NS for i in range(_ROWS))
    lines = (f"{ns // 10**9}.{ns % 10**9:09d},{events[i % len(events)]}\n" for i, ns in enumerate(times))
    Path(str(path).replace("orderbook", "message")).write_text("".join(lines))
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
