"""Files that are whole or absent: written under another name, synced, renamed, and the folder synced."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foxflow.record import layout

ROW_GROUP = 1 << 17
"""Rows of digests.parquet read at once, and those of one step more: groups of rows begin with a step."""
DUMP_GROUP_BYTES = 1 << 24
"""Bytes of dumped buffers read at once, unless one buffer is larger."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield the name to write under; on success the file appears at `path`, complete and on disk."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        yield fresh
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    with fresh.open("rb+") as file:
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file that is whole or absent."""
    with whole(path) as fresh:
        fresh.write_bytes(data)


def sha256(path: Path) -> str:
    """SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parquet(path: Path, schema: Any) -> pq.ParquetWriter:
    """A Parquet writer with page checksums; digests don't repeat, so they get no dictionary."""
    compression = dict.fromkeys(schema.names, "zstd") | {"data": "lz4"}
    return pq.ParquetWriter(
        path,
        schema,
        compression={name: compression[name] for name in schema.names},
        use_dictionary=[name for name in schema.names if name not in ("digest", "data")],
        write_statistics=False,
        write_page_checksum=True,
    )


def stream_to_parquet(batches: Iterator[Any], path: Path) -> int:
    """Gather batches into row groups of about `ROW_GROUP` rows; returns how many rows there were."""
    rows = 0
    with parquet(path, layout.COLUMNS) as out:
        for table in gathered(batches):
            out.write_table(table, row_group_size=len(table))
            rows += len(table)
    return rows


def gathered(batches: Iterator[Any]) -> Iterator[Any]:
    """Small batches as tables of about `ROW_GROUP` rows."""
    held: list[Any] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows >= ROW_GROUP:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def dump_groups(rows: Sequence[int], nbytes: Sequence[int]) -> Iterator[list[int]]:
    """Split rows so that a group's buffers have `DUMP_GROUP_BYTES` at most, or a buffer more stands alone."""
    held: list[int] = []
    size = 0
    for row in rows:
        if held and size + nbytes[row] > DUMP_GROUP_BYTES:
            yield held
            held, size = [], 0
        held.append(row)
        size += nbytes[row]
    yield held
