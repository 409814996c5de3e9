"""A small record on disk, written by the real Writer: two iterations of H, two dumped steps, one eval step."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from foxflow.digest import digest
from foxflow.flow import EVAL, TRAIN, Captured, Record, Step
from foxflow.record import Writer

STEPS = 4
BUFFERS = (("K", "outcome_w", None), ("H", "iqn_q_values", 0), ("H", "iqn_q_values", 1), ("R", "loss_total", None))
ROWS = STEPS * len(BUFFERS) + 1
SUMMARIES = {
    "eval_summary.json": json.dumps({"b_size": 8, "undefined": ["sharpe"], "win_rate": 0.5}).encode(),
    "alpha_rl_train_summary.json": json.dumps({"seed": 42, "loss": {"q": 0.25, "pi": None}}).encode(),
}
ENVIRONMENT = {
    "deterministic_algorithms": True,
    "float_contract": "no fused or fast math",
    "arithmetic": "1",
    "digest": "fx1",
    "threads": 2,
    "device": "cpu",
}
MANIFEST = {
    "seed": 42,
    "config": {"steps": STEPS},
    "source": "fx1:" + "a" * 32,
    "data": [],
    "dataflow": [],
    "environment": ENVIRONMENT,
    "arithmetic": "1",
    "command": [],
    "capture": {"names": None},
}


def data_of(step: int, k: int | None, buffer: str) -> bytes:
    """Bytes that depend on the place alone."""
    return hashlib.sha256(f"{step} {k} {buffer}".encode()).digest()[:16]


def write(
    folder: Path,
    *,
    manifest: dict[str, object] | None = None,
    summaries: dict[str, bytes] = SUMMARIES,
    flip: tuple[int, int | None, str] | None = None,
    dumps: int = 2,
    steps: range = range(STEPS),
) -> Record:
    """Write and close a record; `flip` is the place of a buffer of which one bit is turned."""
    writer = Writer(folder, manifest={**MANIFEST, **(manifest or {})})
    for step in steps:
        writer.write(_step(step, flip, dumped=step < dumps))
    writer.write(
        Step(step=0, phase=EVAL, buffers=(_captured(0, 0, ("R", "loss_total", None), flip=False, dumped=False),))
    )
    return writer.close(summaries)


def _step(step: int, flip: tuple[int, int | None, str] | None, *, dumped: bool) -> Step:
    buffers = tuple(
        _captured(order, step, place, flip=(step, place[2], place[1]) == flip, dumped=dumped)
        for order, place in enumerate(BUFFERS)
    )
    diag = json.dumps({"step": step, "loss": {"q": 0.5 / (step + 1), "pi": None}, "elapsed_s": id(buffers) / 1e9})
    return Step(step=step, phase=TRAIN, buffers=buffers, diag=diag)


def _captured(order: int, step: int, place: tuple[str, str, int | None], *, flip: bool, dumped: bool) -> Captured:
    group, buffer, k = place
    data = data_of(step, k, buffer)
    if flip:
        data = bytes([data[0] ^ 1]) + data[1:]
    return Captured(
        k=k,
        order=order,
        group=group,
        buffer=buffer,
        dtype="f32",
        shape=(4,),
        nbytes=16,
        digest=digest(data, "f32", (4,)),
        data=data if dumped else None,
    )
