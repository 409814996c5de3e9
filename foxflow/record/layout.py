"""Names and columns of a record's files.

manifest.json                seals the rest once the run is closed; `complete` is false until then
digests.parquet              one row per buffer and step
digests.arrows               the same while running: an append-only stream of one row per step, see `RUNNING_COLUMNS`
buffers/step-000000.parquet  the same columns and the bytes, one file per dumped step (eval-…, final-… likewise)
diag.jsonl                   one line per step
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from foxflow import flow
from foxflow.digest import SCHEME

SCHEMA_VERSION = 1
MANIFEST, DIGESTS, RUNNING, DIAG, BUFFERS = (
    "manifest.json",
    "digests.parquet",
    "digests.arrows",
    "diag.jsonl",
    "buffers",
)
PHASES = (flow.TRAIN, flow.EVAL, flow.FINAL)
STEMS = {flow.TRAIN: "step", flow.EVAL: "eval", flow.FINAL: "final"}
DECLARED = ("seed", "config", "source", "data", "dataflow", "environment", "arithmetic", "capture", "command")
"""What the manifest takes from the caller as it is."""

REPEATED = ("phase", "group", "buffer", "dtype", "shape")
"""Columns of few distinct values: dictionary-encoded on disk and in the batches that readers get."""

COLUMNS = pa.schema(
    [
        ("step", pa.int64()),
        ("phase", pa.string()),
        ("k", pa.int64()),
        ("rank", pa.int32()),
        ("order", pa.int32()),
        ("group", pa.string()),
        ("buffer", pa.string()),
        ("dtype", pa.string()),
        ("shape", pa.string()),
        ("nbytes", pa.int64()),
        ("digest", pa.string()),
    ]
)
"""`flow.DIGEST_COLUMNS`; a shape is JSON text such as "[3,4]", a digest text, k null where there is none."""

FORM_COLUMNS = pa.schema([COLUMNS.field(name) for name in COLUMNS.names if name not in ("step", "phase", "digest")])
"""What steps that capture alike have in common."""

RUNNING_COLUMNS = pa.schema(
    [
        ("step", pa.int64()),
        ("phase", pa.string()),
        ("form", pa.int64()),
        ("rows", pa.binary()),
        ("digests", pa.binary()),
    ]
)
"""A step while the run goes on: the number of its form, that form as an Arrow message at its first step, 16 bytes a
digest."""

RUNNING_TYPES = RUNNING_COLUMNS.types
DUMP_COLUMNS = COLUMNS.append(pa.field("data", pa.large_binary()))
END_TO_END = {"foxflow.data": "end to end"}
"""What a dump says of itself if the bytes of each row group are the end of its column chunk, in order."""

_DUMP = re.compile(rf"{BUFFERS}/(step|eval|final)-(\d{{6,}})\.parquet")


def dump_name(phase: str, step: int) -> str:
    """The file of a dumped step, relative to the record."""
    return f"{BUFFERS}/{STEMS[phase]}-{step:06d}.parquet"


def dumps_among(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """(phase, step) of each dump among file names, in the order of a run."""
    phases = {stem: phase for phase, stem in STEMS.items()}
    found = [(phases[m[1]], int(m[2])) for m in map(_DUMP.fullmatch, names) if m]
    return tuple(sorted(found, key=lambda place: (PHASES.index(place[0]), place[1])))


def form(columns: flow.Columns, rank: int) -> Any:
    """A step's columns but for its number, phase and digests, as a batch of `FORM_COLUMNS`."""
    values: list[Any] = [
        columns.k,
        [rank] * len(columns.k),
        columns.order,
        columns.group,
        columns.buffer,
        columns.dtype,
        [canonical(shape) for shape in columns.shape],
        columns.nbytes,
    ]
    arrays = [pa.array(value, field.type) for value, field in zip(values, FORM_COLUMNS, strict=True)]
    return pa.record_batch(arrays, schema=FORM_COLUMNS)


def rows(form: Any, phase: str, step: int, digests: bytes) -> Any:
    """The rows of a step, as a batch of `COLUMNS`.

    Args:
        form: of the function `form`.
        phase: of the step.
        step: its number.
        digests: 16 bytes a row.
    """
    first = [pa.repeat(pa.scalar(value, COLUMNS.field(i).type), len(form)) for i, value in enumerate((step, phase))]
    return pa.record_batch([*first, *form.columns, _texts(digests)], schema=COLUMNS)


def running(phase: str, step: int, digests: bytes, number: int, form: Any) -> Any:
    """A step as the next message of digests.arrows, which begins with the schema's.

    Args:
        phase: of the step.
        step: its number.
        digests: 16 bytes a row.
        number: of its form.
        form: of the function `form`, where it was not written yet; None after that.
    """
    values = [[step], [phase], [number], [None if form is None else form.serialize().to_pybytes()], [digests]]
    arrays = [pa.array(value, type_) for value, type_ in zip(values, RUNNING_TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RUNNING_COLUMNS).serialize()


def _texts(digests: bytes) -> Any:
    """A column of digests as text."""
    count = len(digests) // 16
    text = np.empty((count, 36), np.uint8)
    text[:, :4] = np.frombuffer(f"{SCHEME}:".encode(), np.uint8)
    text[:, 4:] = np.frombuffer(digests.hex().encode(), np.uint8).reshape(count, 32)
    offsets = np.arange(count + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def canonical(value: object) -> str:
    """JSON in one spelling: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
