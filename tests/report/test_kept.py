"""A proof read back from its folder equals the proof that was kept; anything else there is refused in one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from report.reading import diverged
from report.test_page import proof

from foxflow import flow, report
from foxflow.errors import Mistake
from foxflow.experiments.prove import _kept


def kept(folder: Path, told: flow.Proof, **changes: object) -> Path:
    """The folder as `prove` writes it."""
    (folder / "proof.json").write_text(json.dumps({**_kept(told), **changes}))
    return folder


def test_a_proof_comes_back_as_it_was(tmp_path: Path) -> None:
    told = proof(diverged(tmp_path)[0])
    read = report.read_proof(kept(tmp_path, told), told.explanation)
    assert read == dataclasses.replace(told, folder=str(tmp_path))


@pytest.mark.parametrize(
    "changes", [{"experiments": [{"name": "x"}]}, {"experiments": 3}, {"accused": {"where": {}}}, {"accused": "x"}]
)
def test_a_folder_without_a_sound_proof_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    told = proof(diverged(tmp_path)[0])
    with pytest.raises(Mistake, match=r"--proof must be a folder with a proof\.json"):
        report.read_proof(kept(tmp_path, told, **changes), told.explanation)
    with pytest.raises(Mistake, match="FileNotFoundError"):
        report.read_proof(tmp_path / "nowhere", told.explanation)


def test_the_proof_of_other_runs_is_refused(tmp_path: Path) -> None:
    told = proof(diverged(tmp_path)[0])
    with pytest.raises(Mistake, match=r"--proof must be of .*, got that of other and "):
        report.read_proof(kept(tmp_path, told, a="other"), told.explanation)
