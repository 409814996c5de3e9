"""A SQLite store of many runs, written into its tables: through MLflow it would take a quarter of an hour."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

PARAMS, METRICS = 30, 60
"""Of each run, as the reference trainer logs them."""


def fill(database: Path, experiment_id: str, runs: int, alike: int) -> None:
    """Add finished clean runs.

    Args:
        database: a migrated store.
        experiment_id: the runs' experiment.
        runs: how many.
        alike: how many of these share identity fx1:aa, half of them with a fingerprint of ones, half of twos.
    """
    names = [f"{i:032x}" for i in range(runs)]
    with closing(sqlite3.connect(database)) as db, db:
        db.executemany(
            "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time,"
            " end_time, source_version, lifecycle_stage, artifact_uri, experiment_id) VALUES"
            " (?, ?, 'UNKNOWN', '', '', 'fox', 'FINISHED', ?, ?, '', 'active', '', ?)",
            [(name, f"run-{i}", i, i + 1, int(experiment_id)) for i, name in enumerate(names)],
        )
        db.executemany("INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)", _tags(names, alike))
        db.executemany(
            "INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
            ((f"param.{i}", str(i), name) for name in names for i in range(PARAMS)),
        )
        db.executemany(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, 0, 0, 0, ?)",
            ((f"loss/{i}", i / 8, name) for name in names for i in range(METRICS)),
        )


def _tags(names: list[str], alike: int):
    for i, name in enumerate(names):
        yield "foxflow.identity", "fx1:aa" if i < alike else f"fx1:b{i}", name
        yield "foxflow.fingerprint", "fx1:" + str(1 + i % 2) * 32, name
        yield "foxflow.clean", "true", name
        for other in ("seed", "device", "torch", "simd", "threads", "git", "git_dirty", "process", "manifest"):
            yield f"foxflow.{other}", "x", name
