"""`foxflow check` against an MLflow server on PostgreSQL that keeps the artifacts itself, as a team runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from track.serving import ROOT, free_port, server


def as_postgres(*words: object) -> None:
    """PostgreSQL refuses to run as root, so root becomes Debian's user postgres."""
    command = [str(word) for word in words]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """A fresh PostgreSQL on a free port of this machine; its address for MLflow."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="foxflow-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        as_postgres(programs / "initdb", "-D", folder / "data", "-U", "mlflow", "--auth=trust", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        as_postgres(programs / "pg_ctl", "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start")
        try:
            yield f"postgresql+psycopg2://mlflow@127.0.0.1:{port}/postgres"
        finally:
            as_postgres(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_passes(programs: Path, tmp_path: Path, *options: str) -> None:
    with postgres(programs) as store, server(tmp_path / "server", store) as made:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": made.uri}
        command = [sys.executable, "-m", "foxflow", "check", *options, "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["verdict"] == "EQUAL"
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=made.uri)
        for seed in found["seeds"]:
            assert seed["gate"] == "PASS"
            for run_id in (seed["run_a"], seed["run_b"]):
                run = client.get_run(run_id)
                assert (run.info.status, run.data.tags["foxflow.fingerprint"]) == ("FINISHED", seed["fingerprint"])
                assert run.info.artifact_uri.startswith("mlflow-artifacts:")
                assert "record/manifest.json" in {item.path for item in client.list_artifacts(run_id, "record")}


@pytest.mark.postgres
def test_check_passes_on_a_server_with_postgresql_and_proxied_artifacts(postgres_programs, tmp_path):
    check_passes(postgres_programs, tmp_path, "--seeds", "42", "--preset", "tiny")


@pytest.mark.postgres
@pytest.mark.slow
def test_a_quick_check_of_three_seeds_passes_on_postgresql(postgres_programs, tmp_path):
    check_passes(postgres_programs, tmp_path, "--seeds", "42,43,44", "--quick")
