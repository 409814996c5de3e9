"""The server killed with SIGKILL in the middle of `foxflow run`, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from track.serving import ROOT, Server, server

RUN = ("run", "--seed", "7", "--preset", "tiny", "--steps", "120", "--json")
UNLIKE = ("foxflow.process", "foxflow.twin", "foxflow.verdict", "mlflow.runName")
SOURCE = ("foxflow.identity", "foxflow.git", "foxflow.git_dirty", "foxflow.clean")
"""Told when a run is made, so never lost; they change when somebody edits the checkout while the test runs."""


def foxflow(folder: Path, made: Server, *words: str) -> subprocess.Popen[str]:
    variables = {"PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": made.uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "foxflow", *words],
        cwd=folder, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(child: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    out, err = child.communicate(timeout=400)
    assert child.returncode == 0, err
    return json.loads(out), err


def told(made: Server, run_id: str, folder: Path) -> dict[str, Any]:
    """All that MLflow has of a run, but names, ids, times, the twin and the machine's load."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=made.uri)
    run = client.get_run(run_id)
    copy = Path(client.download_artifacts(run_id, "", str(folder)))
    return {
        "status": run.info.status,
        "params": run.data.params,
        "tags": {key: value for key, value in run.data.tags.items() if key not in UNLIKE + SOURCE},
        "data": [(used.dataset.name, used.dataset.digest) for used in run.inputs.dataset_inputs],
        "metrics": {
            key: [(m.step, m.value) for m in client.get_metric_history(run_id, key)]
            for key in run.data.metrics
            if not key.startswith("system/")
        },
        "files": {p.relative_to(copy).as_posix(): p.read_bytes() for p in copy.rglob("*") if p.is_file()},
    }


def dumps_and_digests(files: dict[str, bytes]) -> dict[str, bytes]:
    """Of a record: all but its manifest and diag.jsonl, which hold the times."""
    return {name: data for name, data in files.items() if not name.endswith(("manifest.json", "diag.jsonl"))}


def test_a_run_whose_server_was_killed_equals_after_sync_one_that_never_lost_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with server(tmp_path / "server") as made:
        control, _ = finished(foxflow(tmp_path, made, *RUN))
        child = foxflow(tmp_path, made, *RUN, "--run-name", "lost")
        running = tmp_path / "mlruns" / "records" / "lost" / "digests.arrows"
        until = time.monotonic() + 240
        while not (running.exists() and running.stat().st_size) and time.monotonic() < until:
            time.sleep(0.02)
        made.stop(signal.SIGKILL)
        assert child.poll() is None
        lost, err = finished(child)
        assert lost["fingerprint"] == control["fingerprint"]
        (line,) = [line for line in err.splitlines() if line]
        assert line.startswith("foxflow: the store went away: it can't be reached (Connection refused); ")
        assert line.endswith(f"parts wait in mlruns/spool/{lost['run_id']}, 'foxflow sync' sends the rest")
        made.start()
        (synced,) = finished(foxflow(tmp_path, made, "sync", "--json"))[0]["runs"]
        assert (synced["run_id"], synced["waits"]) == (lost["run_id"], None)
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        whole, again = (told(made, run["run_id"], tmp_path / d) for run, d in ((control, "a"), (lost, "b")))
    assert whole["tags"].pop("foxflow.manifest") != again["tags"].pop("foxflow.manifest")
    files, files_again = whole.pop("files"), again.pop("files")
    assert whole == again
    assert len(whole["metrics"]["loss/q"]) == 120
    assert dumps_and_digests(files) == dumps_and_digests(files_again)
    record = Path(tmp_path / lost["record"])
    assert {p.relative_to(record).as_posix() for p in record.rglob("*") if p.is_file()} == {
        name.removeprefix("record/") for name in files_again if name.startswith("record/")
    }
    assert all(files_again[f"record/{p.relative_to(record).as_posix()}"] == p.read_bytes() for p in record.glob("*.*"))
