"""The command line in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.commanding import Command, here


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """foxflow in an empty folder without a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda *words: here(capsys, *words)
