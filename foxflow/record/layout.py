"""Names and columns of a record's files.

manifest.json                seals the rest once the run is closed; `complete` is false until then
digests.parquet              one row per buffer and step; `digests.arrows`, an append-only stream, while running
buffers/step-000000.parquet  the same columns and the bytes, one file per dumped step (eval-…, final-… likewise)
diag.jsonl                   one line per step
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence

import pyarrow as pa

from foxflow import flow

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

DUMP_COLUMNS = COLUMNS.append(pa.field("data", pa.large_binary()))

_DUMP = re.compile(rf"{BUFFERS}/(step|eval|final)-(\d{{6,}})\.parquet")


def dump_name(phase: str, step: int) -> str:
    """The file of a dumped step, relative to the record."""
    return f"{BUFFERS}/{STEMS[phase]}-{step:06d}.parquet"


def dumps_among(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """(phase, step) of each dump among file names, in the order of a run."""
    phases = {stem: phase for phase, stem in STEMS.items()}
    found = [(phases[m[1]], int(m[2])) for m in map(_DUMP.fullmatch, names) if m]
    return tuple(sorted(found, key=lambda place: (PHASES.index(place[0]), place[1])))


def rows(step: flow.Step, rank: int, buffers: Sequence[flow.Captured]) -> list[list[object]]:
    """The columns of `COLUMNS` for some buffers of a step."""
    return [
        [step.step] * len(buffers),
        [step.phase] * len(buffers),
        [b.k for b in buffers],
        [rank] * len(buffers),
        [b.order for b in buffers],
        [b.group for b in buffers],
        [b.buffer for b in buffers],
        [b.dtype for b in buffers],
        [shape_text(b.shape) for b in buffers],
        [b.nbytes for b in buffers],
        [b.digest for b in buffers],
    ]


@functools.lru_cache(maxsize=65536)
def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as JSON."""
    return canonical(shape)


def canonical(value: object) -> str:
    """JSON in one spelling: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
