"""`.ci/run`: what is missing is installed or named, and no test may be skipped for the lack of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cli.commanding import ROOT

MAKEFILE = "test:\n\t@echo required: $$FOXFLOW_REQUIRE\n"


def run(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """The script in a project of its own, whose `make test` only says what is required."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE)
    bash = shutil.which("bash")
    assert bash
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    environment = {**outer, "PATH": path, "FOXFLOW_REQUIRE": ""}
    return subprocess.run([bash, ".ci/run"], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.browser
@pytest.mark.postgres
def test_where_nothing_is_missing_nothing_is_installed_and_the_tests_must_not_skip(tmp_path: Path) -> None:
    done = run(tmp_path, os.environ["PATH"])
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "required: browser,postgres"), done.stderr
    assert "Reading package lists" not in done.stdout


def test_what_can_not_be_installed_is_named_and_no_test_is_run(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "make"):
        (programs / name).symlink_to(str(shutil.which(name)))
    done = run(tmp_path, str(programs))
    assert (done.returncode, "required" in done.stdout) == (2, False), done.stderr
    assert done.stderr.startswith(".ci/run must install chromium")
    assert "got no apt-get" in done.stderr
