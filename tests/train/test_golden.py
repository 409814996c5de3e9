"""One value a seed for every device, thread count and torch; a golden that moves needs a reason in CHANGELOG.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bits import DEVICES

from foxflow.cli.options import QUICK, SIZES
from foxflow.config import PRESETS, Config, Recording
from foxflow.determinism.settings import ARITHMETIC
from foxflow.digest import SCHEME
from foxflow.experiments.run import Options, perform

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = json.loads((ROOT / "tests" / "golden" / "fingerprints.json").read_text())


def test_the_goldens_are_of_this_digest_and_arithmetic():
    assert (GOLDEN["digest"], GOLDEN["arithmetic"]) == (SCHEME, ARITHMETIC)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [42, 43, 44])
def test_tiny_runs_have_their_fingerprint(seed, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps, eval_steps = SIZES["tiny"]
    config = Config(seed=seed, steps=steps, eval_steps=eval_steps, preset="tiny", shape=PRESETS["tiny"])
    options = Options(config=config, recording=Recording(), device=device, track=False)
    assert perform(options, lambda done, total, phase: None).fingerprint == GOLDEN["tiny"][str(seed)]


def test_a_quick_pair_is_equal_gated_and_has_its_fingerprint(tmp_path):
    """The answer a user gets: two fresh processes at full width, into a real store, compared and gated."""
    assert QUICK == (200, 50)
    command = [sys.executable, "-m", "foxflow", "check", "--seeds", "42", "--quick", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["verdict"] == "EQUAL"
    (pair,) = found["seeds"]
    assert (pair["gate"], pair["fingerprint"]) == ("PASS", GOLDEN["quick"]["42"])
    assert pair["run_a"] != pair["run_b"]
