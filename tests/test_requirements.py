"""What a machine lacks is skipped with its reason, and fails where FOXFLOW_REQUIRE names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
MARKED = "import pytest\n@pytest.mark.{mark}\ndef test_it():\n    pass\n"


def run(folder: Path, mark: str, require: str) -> subprocess.CompletedProcess[str]:
    """pytest with this project's conftest, in a folder of one marked test, where the PATH is empty."""
    (folder / "conftest.py").write_text(CONFTEST.read_text().replace("/usr/lib/postgresql", str(folder / "none")))
    (folder / "test_marked.py").write_text(MARKED.format(mark=mark))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n gpu: x\n browser: x\n postgres: x\n")
    environment = {**os.environ, "PATH": str(folder / "none"), "FOXFLOW_REQUIRE": require}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("mark", "package"), [("browser", "chromium"), ("postgres", "postgresql")])
def test_without_the_program_a_test_is_skipped_and_says_what_to_install(tmp_path: Path, mark: str, package: str):
    done = run(tmp_path, mark, "")
    assert (done.returncode, "1 skipped" in done.stdout) == (0, True)
    assert f"install Debian's {package}" in done.stdout


@pytest.mark.parametrize("mark", ["browser", "postgres"])
def test_where_it_is_required_the_skip_is_a_failure(tmp_path: Path, mark: str):
    done = run(tmp_path, mark, "browser, postgres")
    assert done.returncode == 1
    assert f"FOXFLOW_REQUIRE holds {mark}, but no " in done.stdout


def test_a_word_that_no_test_knows_is_refused(tmp_path: Path):
    done = run(tmp_path, "browser", "postgresql")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "FOXFLOW_REQUIRE must hold gpu, browser, postgres, got postgresql" in done.stderr + done.stdout
