"""One clean tiny run and its record, shared by the tests of explanations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from explanation.making import ALL_DUMPS, Edit, edited, run, written

import foxflow
from foxflow import flow

Explained = Callable[..., flow.Explanation]


@pytest.fixture(scope="session")
def clean() -> list[flow.Step]:
    return run()


@pytest.fixture(scope="session")
def dumped() -> list[flow.Step]:
    return run(recording=ALL_DUMPS)


@pytest.fixture
def doctored(tmp_path: Path) -> Explained:
    """Explain a run against itself with some buffers changed on their way to disk."""

    def explained(taken: list[flow.Step], *edits: Edit, **declared: object) -> flow.Explanation:
        changed = iter(taken)
        for edit in edits:
            changed = edited(changed, edit)
        return foxflow.explain(written(tmp_path / "a", taken), written(tmp_path / "b", changed, **declared))

    return explained
