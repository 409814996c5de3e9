"""Skips what this machine lacks, and says so; FOXFLOW_REQUIRE_GPU=1 turns a missing GPU into a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu:
        return
    import torch

    if torch.cuda.is_available() or os.environ.get("FOXFLOW_REQUIRE_GPU") == "1":
        return
    for item in gpu:
        item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real order-book files beside the project; tests that need it skip without it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data")
    return folder
