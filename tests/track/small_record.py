"""A small record on disk, written by hand: the manifest, the digests, two dumped steps, the summaries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from foxflow.flow import DIGEST_COLUMNS, EVAL, TRAIN, Record

NAMES = (("K", "outcome_w"), ("H", "iqn_q_values"), ("R", "loss_total"))
STEPS = 4
ENVIRONMENT = {
    "deterministic_algorithms": True,
    "float_contract": "no fused or fast math",
    "arithmetic": "fa1",
    "digest_scheme": "fx1",
    "threads": 2,
    "device": "cpu",
}


def data_of(step: int, k: int | None, buffer: str) -> bytes:
    """Bytes that depend on the place alone."""
    return hashlib.sha256(f"{step} {k} {buffer}".encode()).digest()[:16]


def rows(steps: int = STEPS) -> list[dict[str, object]]:
    """Digest rows of a run with two iterations of H, and one eval step, in order."""
    places = [
        (step, TRAIN, k, g, b) for step in range(steps) for g, b in NAMES for k in ((0, 1) if g == "H" else (None,))
    ]
    places.append((0, EVAL, None, "R", "loss_total"))
    out = []
    for order, (step, phase, k, group, buffer) in enumerate(places):
        digest = "fx1:" + hashlib.sha256(data_of(step, k, buffer)).hexdigest()[:32]
        values = (step, phase, k, 0, order, group, buffer, "f32", [4], 16, digest)
        out.append(dict(zip(DIGEST_COLUMNS, values, strict=True)))
    return out


def write(
    folder: Path,
    *,
    edit=lambda rows: rows,
    manifest=lambda m: m,
    summaries=True,
    dump=lambda r: data_of(r["step"], r["k"], r["buffer"]),
) -> Record:
    """Write a record; `edit` changes its rows, `manifest` its manifest, `dump` gives a dumped row's bytes."""
    folder.mkdir(parents=True)
    written = edit(rows())
    schema = pa.schema(
        [
            ("step", pa.int64()),
            ("phase", pa.string()),
            ("k", pa.int64()),
            ("rank", pa.int64()),
            ("order", pa.int64()),
            ("group", pa.string()),
            ("buffer", pa.string()),
            ("dtype", pa.string()),
            ("shape", pa.list_(pa.int64())),
            ("nbytes", pa.int64()),
            ("digest", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(written, schema), folder / "digests.parquet")
    (folder / "buffers").mkdir()
    for step in (0, 1):
        dumped = [{**row, "data": dump(row)} for row in written if row["phase"] == TRAIN and row["step"] == step]
        table = pa.Table.from_pylist(dumped, schema.append(pa.field("data", pa.large_binary())))
        pq.write_table(table, folder / "buffers" / f"step-{step:06d}.parquet")
    if summaries:
        (folder / "eval_summary.json").write_text(json.dumps({"b_size": 8, "undefined": ["sharpe"], "win_rate": 0.5}))
        (folder / "alpha_rl_train_summary.json").write_text(json.dumps({"seed": 42, "loss": {"q": 0.25, "pi": None}}))
        lines = [{"step": s, "phase": TRAIN, "loss": {"q": 0.5 / (s + 1)}, "elapsed_s": s * 0.1} for s in range(STEPS)]
        (folder / "diag.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stated = {
        "schema": 1,
        "seed": 42,
        "config": {"steps": STEPS},
        "source": "fx1:" + "a" * 32,
        "data": [],
        "dataflow": [],
        "environment": dict(ENVIRONMENT),
        "arithmetic": "fa1",
        "capture": {"names": sorted({b for _, b in NAMES}), "steps": STEPS},
        "fingerprint": "fx1:" + "b" * 32,
        "complete": True,
        "files": {
            str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
            for f in sorted(folder.rglob("*"))
            if f.is_file()
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest(stated)))
    return handle(folder)


def handle(folder: Path) -> Record:
    """Open what `write` wrote."""

    def read(name: str) -> bytes | None:
        return (folder / name).read_bytes() if (folder / name).is_file() else None

    manifest = (folder / "manifest.json").read_text()
    return Record(
        path=str(folder),
        manifest=manifest,
        complete=json.loads(manifest).get("complete") is True,
        missing=(),
        dump_steps=((TRAIN, 0), (TRAIN, 1)),
        digests=lambda: pq.ParquetFile(folder / "digests.parquet").iter_batches(),
        dump=lambda phase, step: pq.ParquetFile(folder / "buffers" / f"step-{step:06d}.parquet").iter_batches(),
        read=read,
    )
