"""The run-context plug-in as MLflow finds it, by its entry point; and what it says of a checkout and a machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from foxflow import provenance

ROOT = Path(__file__).resolve().parent.parent.parent

START = """
import sys, mlflow
assert "foxflow.plugin" in sys.modules
loaded = "torch" in sys.modules
with mlflow.start_run() as run:
    pass
assert ("torch" in sys.modules) == loaded
tags = mlflow.get_run(run.info.run_id).data.tags
print(*sorted(f"{key}={value}" for key, value in tags.items() if key.startswith("foxflow.")), sep="\\n")
"""


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.py").write_text("1")
    git(folder, "add", "a.py")
    git(folder, "commit", "-q", "-m", "x")
    return folder


def tags_of_a_run(folder: Path, tmp_path: Path, migrated: Path) -> dict[str, str]:
    """Of `mlflow.start_run` in a fresh process that finds foxflow installed with the entry points of pyproject.toml."""
    installed = tmp_path / "site" / "foxflow-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: foxflow\nVersion: 0\n")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "mlflow.db").write_bytes(migrated.read_bytes())
    variables = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)]),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    done = subprocess.run(
        [sys.executable, "-c", START],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_any_mlflow_run_is_tagged_with_commit_changes_and_machine(checkout, tmp_path, migrated):
    (checkout / "new.py").write_text("2")
    tags = tags_of_a_run(checkout, tmp_path, migrated)
    assert tags["foxflow.git"] == git(checkout, "rev-parse", "HEAD")
    assert len(tags["foxflow.git_dirty"]) == 16
    assert tags["foxflow.simd"] in ("DEFAULT", "AVX2", "AVX512")
    assert int(tags["foxflow.threads"]) >= 1
    assert {"foxflow.device", "foxflow.torch"} <= set(tags)


def test_a_checkout_is_clean_or_says_by_a_digest_what_changed(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert provenance.checkout(checkout) == (commit, "")
    (checkout / "a.py").write_text("2")
    one = provenance.checkout(checkout)
    (checkout / "a.py").write_text("3")
    other = provenance.checkout(checkout)
    assert one[0] == other[0] == commit
    assert one[1] != other[1]
    assert provenance.checkout(checkout, "elsewhere") == (commit, "")


def test_outside_a_checkout_and_without_git_there_is_no_state(tmp_path, monkeypatch):
    assert provenance.checkout(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.checkout(ROOT) is None


def test_a_checkout_that_does_not_say_what_changed_is_not_clean(checkout):
    (checkout / ".git" / "index").write_bytes(b"garbage")
    assert provenance.checkout(checkout)[1] == "unknown"


def test_asking_for_the_machine_loads_no_torch_and_agrees_with_torch_where_it_is_loaded():
    code = (
        "import sys; from foxflow.provenance import machine; a = machine(); assert 'torch' not in sys.modules\n"
        "import torch; b = machine(); assert (a['simd'], a['torch']) == (b['simd'], b['torch']), (a, b); print('ok')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ok\n", done.stderr
