"""Small real records for tests: seeded numpy buffers, written by the Writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foxflow import flow
from foxflow.digest import digest
from foxflow.record import Writer, open_record

TESTS = Path(__file__).resolve().parent.parent
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool"}
BUFFERS = (("W", "w_q"), ("D", "obs"), ("G", "sampled_h_t"), ("H", "q_logits"))
Edit = Callable[[int, int | None, str, np.ndarray], "np.ndarray | None"]


def keep(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray:
    return array


def captured(group: str, buffer: str, array: np.ndarray, *, order: int, k: int | None, dump: bool) -> flow.Captured:
    data = np.ascontiguousarray(array).tobytes()
    dtype = DTYPES[array.dtype.name]
    return flow.Captured(
        k=k,
        order=order,
        group=group,
        buffer=buffer,
        dtype=dtype,
        shape=array.shape,
        nbytes=len(data),
        digest=digest(data, dtype, array.shape),
        data=data if dump else None,
    )


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "seed": 42,
        "config": {"steps": 6, "lr": 0.001},
        "source": "fx1:" + "0" * 32,
        "data": {"tape.csv": "ab" * 32},
        "dataflow": [["q_logits", "head_fwd", ["sampled_h_t", "w_q"]]],
        "environment": {"threads": 1, "device": "cpu"},
        "arithmetic": {"version": 1},
        "command": [],
        "capture": {"names": None},
        **changes,
    }


def steps(count: int = 6, dump: frozenset[int] = frozenset(), edit: Edit = keep) -> Iterator[flow.Step]:
    """Steps of four buffers, the last two once per k = 0, 1; `edit` changes or drops (None) an array."""
    for step in range(count):
        random, buffers = np.random.default_rng(step), []
        for order, (group, buffer) in enumerate(BUFFERS):
            for k in (None,) if group in "WD" else (0, 1):
                array = edit(step, k, buffer, random.standard_normal((3, 4)).astype(np.float32))
                if array is not None:
                    buffers.append(captured(group, buffer, array, order=order, k=k, dump=step in dump and k != 0))
        diag = json.dumps({"step": step, "loss": {"q": 0.5 + step}, "elapsed_s": id(buffers) % 1000})
        yield flow.Step(step=step, phase=flow.TRAIN, buffers=tuple(buffers), diag=diag)


def record(folder: Path, taken: Iterator[flow.Step] | None = None, **changes: Any) -> flow.Record:
    writer = Writer(folder, manifest=manifest(**changes))
    for step in steps() if taken is None else taken:
        writer.write(step)
    return writer.close({"eval_summary.json": b'{"b_size": 4}\n'})


def rows(opened: flow.Record) -> list[dict[str, object]]:
    return [row for batch in opened.digests() for row in batch.to_pylist()]


def expected(taken: list[flow.Step]) -> list[tuple[object, ...]]:
    return [(s.step, s.phase, b.k, b.buffer, list(b.shape), b.digest) for s in taken for b in s.buffers]


def seen(opened: flow.Record) -> list[tuple[object, ...]]:
    return [
        (r["step"], r["phase"], r["k"], r["buffer"], json.loads(str(r["shape"])), r["digest"]) for r in rows(opened)
    ]


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace a Parquet file by a changed one, with sound pages and checksums."""
    table = pq.read_table(path)
    pq.write_table(change(table), path)


KILLED = """
import os, signal, sys
from record.making import manifest, steps
from foxflow.record import Writer
writer = Writer(sys.argv[1], manifest=manifest())
for step in steps(6, dump=frozenset({1})):
    if step.step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    writer.write(step)
"""


def killed(folder: Path) -> flow.Record:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, folder],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return open_record(folder)
