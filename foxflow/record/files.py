"""Files that are whole or absent: written under another name, synced, renamed, and the folder synced."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foxflow.record import layout

ROW_GROUP = 1 << 17
"""Rows of digests.parquet read at once, and those of one step more: groups of rows begin with a step."""
DUMP_GROUP_BYTES = 1 << 24
"""Bytes of dumped buffers read at once, unless one buffer is larger."""
DUMP_GROUP_ROWS = 1 << 10
"""As many rows as are surely written as one page."""


@contextlib.contextmanager
def whole(path: Path, *, sync_name: bool = True) -> Iterator[Path]:
    """Yield the name to write under; on success the file appears at `path`, complete and on disk.

    Without `sync_name` its name may be lost in a power cut until its folder is synced.
    """
    fresh = path.with_name(f".{path.name}.part")
    try:
        yield fresh
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    with fresh.open("rb+") as file:
        os.fsync(file.fileno())
    fresh.replace(path)
    if sync_name:
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


class Flush:
    """Hands a file to the disk in a thread while it is still written, so that the last fsync finds little to do.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor, self._thread = os.open(path, os.O_RDONLY), ThreadPoolExecutor(1, "foxflow-disk")
        self._going: Future[None] | None = None

    def start(self) -> None:
        """Hand over what was written so far, unless an earlier part is still on its way.

        Raises:
            OSError: what the disk said of an earlier part.
        """
        if self._going is None or self._going.done():
            if self._going is not None:
                self._going.result()
            self._going = self._thread.submit(os.fdatasync, self._descriptor)

    def close(self) -> None:
        """Wait, and let go of the file."""
        self._thread.shutdown()
        os.close(self._descriptor)


def parquet(path: Path) -> pq.ParquetWriter:
    """A writer of digests.parquet, with page checksums; digests don't repeat, so they get no dictionary."""
    return pq.ParquetWriter(
        path,
        layout.COLUMNS,
        compression="zstd",
        use_dictionary=[name for name in layout.COLUMNS.names if name != "digest"],
        write_statistics=False,
        write_page_checksum=True,
    )


def stream_to_parquet(batches: Iterator[Any], path: Path) -> int:
    """Gather batches into row groups of about `ROW_GROUP` rows; returns how many rows there were."""
    rows = 0
    with parquet(path) as out:
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
    """Split rows so that a group's buffers have `DUMP_GROUP_BYTES` at most, or a larger one stands alone."""
    held: list[int] = []
    size = 0
    for row in rows:
        if held and (size + nbytes[row] > DUMP_GROUP_BYTES or len(held) == DUMP_GROUP_ROWS):
            yield held
            held, size = [], 0
        held.append(row)
        size += nbytes[row]
    yield held
