"""Opening a record: a handle whose openers stream, complete or not."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foxflow import flow
from foxflow.errors import CorruptRecord, NoRecord, must
from foxflow.record import layout
from foxflow.record.files import gathered

UNCLOSED = "the run ended before its record was closed"


def open_record(path: str | Path) -> flow.Record:
    """Open a record's folder; a killed run's too, up to its last step.

    Args:
        path: the folder that holds manifest.json.

    Raises:
        NoRecord: there is no manifest.json.
        CorruptRecord: the manifest can't be read as one.
    """
    folder = Path(path)
    manifest = folder / layout.MANIFEST
    if not manifest.is_file():
        got = "a folder without one" if folder.is_dir() else "no such folder"
        raise must(str(path), f"be a record, a folder with {layout.MANIFEST}", got, "See 'foxflow run'.", NoRecord)
    text = manifest.read_bytes()
    declared = _parsed(folder, text)
    complete = declared["complete"] is True
    present = [f"{layout.BUFFERS}/{p.name}" for p in (folder / layout.BUFFERS).glob("*.parquet")]
    return flow.Record(
        path=str(path),
        manifest=text.decode(),
        complete=complete,
        missing=() if complete else (UNCLOSED,),
        dump_steps=layout.dumps_among(declared["files"] if complete else present),
        digests=functools.partial(_digests, folder, complete),
        dump=functools.partial(_dump, folder),
        dump_unchecked=functools.partial(_dump_unchecked, folder),
        read=functools.partial(_read, folder, frozenset(declared["files"]), complete),
    )


def _parsed(folder: Path, text: bytes) -> dict[str, Any]:
    try:
        declared = json.loads(text.decode())
    except ValueError as error:
        raise CorruptRecord(str(folder), layout.MANIFEST, f"must be JSON: {error}") from error
    lacking = {"schema", "complete", "files", *layout.DECLARED} - set(declared if isinstance(declared, dict) else ())
    if lacking:
        raise CorruptRecord(str(folder), layout.MANIFEST, f"lacks {', '.join(sorted(lacking))}")
    for key in ("files", "capture"):
        if not isinstance(declared[key], dict):
            raise CorruptRecord(str(folder), layout.MANIFEST, f"{key} must be a map, is {type(declared[key]).__name__}")
    if declared["complete"] and not {"names", "digest"} <= set(declared["capture"]):
        raise CorruptRecord(str(folder), layout.MANIFEST, "its capture set lacks names or digest")
    if declared["schema"] != layout.SCHEMA_VERSION:
        do = "Read it with the foxflow that wrote it."
        raise must(str(folder), f"be of schema {layout.SCHEMA_VERSION}", declared["schema"], do)
    return dict(declared)


def running_batches(path: Path) -> Iterator[Any]:
    """Batches of a run that may have been killed, one a step: a torn last step ends the stream."""
    forms: dict[int, Any] = {}
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                step, phase, form, digests = (batch[name][0].as_py() for name in ("step", "phase", "form", "digests"))
                if (rows := batch["rows"][0]).is_valid:
                    forms[form] = pa.ipc.read_record_batch(rows.as_buffer(), layout.FORM_COLUMNS)
                yield layout.rows(forms[form], phase, step, digests)
    except (pa.ArrowException, OSError):
        return


def _encoded(table: Any) -> Any:
    """A plain table as one batch in the form of digests.parquet's."""
    for name in layout.REPEATED:
        column = table[name].combine_chunks().dictionary_encode()
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table.combine_chunks().to_batches()[0]


def _digests(folder: Path, complete: bool) -> Iterator[Any]:
    running = folder / layout.RUNNING
    if not complete and running.exists():
        return (_encoded(table) for table in gathered(running_batches(running)) if len(table))
    if not complete and not (folder / layout.DIGESTS).exists():
        return iter(())
    return _parquet_batches(folder, layout.DIGESTS, layout.COLUMNS)


@contextlib.contextmanager
def _parquet(folder: Path, name: str, columns: Any, coded: Sequence[str] = layout.REPEATED) -> Iterator[pq.ParquetFile]:
    """A Parquet file of the record; whatever is wrong with it names the file."""
    try:
        with pq.ParquetFile(folder / name, read_dictionary=coded, page_checksum_verification=True) as file:
            if file.schema_arrow.names != columns.names:
                raise CorruptRecord(str(folder), name, f"must have columns {columns.names}")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise CorruptRecord(str(folder), name, f"can't be read: {error}") from error


def _parquet_batches(folder: Path, name: str, columns: Any) -> Iterator[Any]:
    with _parquet(folder, name, columns) as file:
        yield from _row_groups(file)


def _row_groups(file: pq.ParquetFile) -> Iterator[Any]:
    for group in range(file.num_row_groups):
        yield from file.read_row_group(group).to_batches()


def _dump(folder: Path, phase: str, step: int) -> Iterator[Any]:
    return _parquet_batches(folder, layout.dump_name(phase, step), layout.DUMP_COLUMNS)


def _dump_unchecked(folder: Path, phase: str, step: int) -> Iterator[Any]:
    name = layout.dump_name(phase, step)
    with _parquet(folder, name, layout.DUMP_COLUMNS, coded=()) as file:
        chunks = [file.metadata.row_group(i).column(len(layout.COLUMNS)) for i in range(file.num_row_groups)]
        if not _end_to_end(file.metadata.metadata or {}, chunks):
            yield from _row_groups(file)
            return
        with pa.memory_map(str(folder / name)) as mapped:
            lying = mapped.read_buffer()
        rows = file.read(layout.COLUMNS.names).combine_chunks()
        for chunk in chunks:
            (batch,) = rows.slice(0, chunk.num_values).to_batches()
            rows = rows.slice(chunk.num_values)
            yield batch.append_column("data", _lying(lying, chunk, batch["nbytes"].to_numpy()))


def _end_to_end(metadata: dict[bytes, bytes], chunks: list[Any]) -> bool:
    """Whether a dump is as the writer writes it, and not another's."""
    said = {key.encode(): value.encode() for key, value in layout.END_TO_END.items()}
    return said.items() <= metadata.items() and all(
        chunk.compression == "UNCOMPRESSED" and "DELTA_LENGTH_BYTE_ARRAY" in chunk.encodings for chunk in chunks
    )


def _lying(mapped: Any, chunk: Any, nbytes: Any) -> Any:
    """The data of a row group, the end of its column chunk, as they lie in the mapped file."""
    begin, size = chunk.data_page_offset, chunk.total_compressed_size
    offsets = np.concatenate([[0], np.cumsum(nbytes)])
    if nbytes.min() < 0 or nbytes.max() > size or not offsets[-1] <= size <= mapped.size - begin or begin < 0:
        raise pa.ArrowInvalid(f"{size} bytes at {begin} do not hold the buffers of a row group")
    data = mapped.slice(begin + size - offsets[-1], offsets[-1])
    return pa.Array.from_buffers(pa.large_binary(), len(nbytes), [None, pa.py_buffer(offsets), data])


def _read(folder: Path, listed: frozenset[str], complete: bool, name: str) -> bytes | None:
    path = folder / name
    if not path.is_file():
        if name in listed:
            raise CorruptRecord(str(folder), name, "is listed in the manifest, not there")
        return None
    data = path.read_bytes()
    if not complete and name == layout.DIAG:
        return data[: data.rfind(b"\n") + 1]
    return data
