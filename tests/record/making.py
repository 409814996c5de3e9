"""Small real records for tests: seeded numpy buffers, written by the Writer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foxflow import flow
from foxflow.digest import digest
from foxflow.record import Writer

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
