"""Skips what this machine lacks, and says so; FOXFLOW_REQUIRE turns such a skip into a failure.

FOXFLOW_REQUIRE holds words joined by commas: gpu, browser, postgres. FOXFLOW_REQUIRE_GPU=1 is the same as gpu.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def postgres_folder() -> Path | None:
    """Where initdb and pg_ctl are: on the PATH, or where Debian puts them, the newest first."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return debian[-1].parent if debian else None


def browser() -> str | None:
    """The program that drives pages in tests."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


NEEDS = {
    "gpu": (_gpu, "no CUDA device"),
    "browser": (browser, f"no {' or '.join(CHROMIUM)} on the PATH; install Debian's chromium"),
    "postgres": (postgres_folder, "no initdb on the PATH or in /usr/lib/postgresql; install Debian's postgresql"),
}
"""Mark -> what finds it, and what is said where it does not."""


def required() -> set[str]:
    """What must not be skipped.

    Raises:
        UsageError: FOXFLOW_REQUIRE holds a word that no test knows.
    """
    words = {word.strip() for word in os.environ.get("FOXFLOW_REQUIRE", "").split(",") if word.strip()}
    unknown = sorted(words - set(NEEDS))
    if unknown:
        raise pytest.UsageError(f"FOXFLOW_REQUIRE must hold {', '.join(NEEDS)}, got {', '.join(unknown)}")
    return words | ({"gpu"} if os.environ.get("FOXFLOW_REQUIRE_GPU") == "1" else set())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = required()
    for mark, (find, lack) in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        if marked and mark not in wanted and not find():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=lack))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in sorted(required() & {"browser", "postgres"}):
        find, lack = NEEDS[mark]
        if item.get_closest_marker(mark) and not find():
            pytest.fail(f"FOXFLOW_REQUIRE holds {mark}, but {lack}", pytrace=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real order-book files beside the project; tests that need it skip without it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data")
    return folder


@pytest.fixture(scope="session")
def postgres_programs() -> Path | None:
    """The folder of initdb and pg_ctl, for tests of the mark `postgres`."""
    return postgres_folder()


@pytest.fixture(scope="session")
def browser_program() -> str | None:
    """Chromium, for tests of the mark `browser`."""
    return browser()
