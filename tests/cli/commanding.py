"""Runs of the command line, in this process and in fresh ones."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from foxflow.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent

Said = tuple[int, str, str]
"""Exit code, stdout, stderr."""
Command = Callable[..., Said]


def here(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    """In this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(list(words))
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def fresh(folder: Path, *words: str, package: Path = ROOT, **variables: str) -> Said:
    """In a fresh process that starts in a folder; another package than this checkout's hides an editable install."""
    hidden = [] if package == ROOT else ["-S"]
    path = os.pathsep.join([str(package), sysconfig.get_path("purelib")])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    done = subprocess.run(
        [sys.executable, *hidden, "-m", "foxflow", *words],
        cwd=folder,
        env=kept | {"PYTHONPATH": path} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
