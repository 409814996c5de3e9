"""One value a seed for every device, thread count and torch; a golden that moves needs a reason in CHANGELOG.md.

`foxflow golden tests/golden/fingerprints.json --seeds 42,43,44 --track none --write --preset tiny` renews the tiny
ones, `--quick` in the place of `--preset tiny` the others; each says when, with which torch and on what machine.
"""

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
FILE = ROOT / "tests" / "golden" / "fingerprints.json"
KEPT = json.loads(FILE.read_text())
GOLDEN = {("tiny" if "tiny" in run["options"] else "quick", run["seed"]): run["fingerprint"] for run in KEPT["runs"]}


def test_the_goldens_are_of_this_digest_and_arithmetic():
    assert (KEPT["digest"], KEPT["arithmetic"]) == (SCHEME, ARITHMETIC)


def test_each_seed_has_a_golden_of_each_size_and_each_says_what_made_it():
    assert set(GOLDEN) == {(size, seed) for size in ("tiny", "quick") for seed in (42, 43, 44)}
    assert len(KEPT["runs"]) == len(GOLDEN) == len(set(GOLDEN.values()))
    for run in KEPT["runs"]:
        assert all(run["made"][fact] for fact in ("on", "foxflow", "torch", "device", "machine"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [42, 43, 44])
def test_tiny_runs_have_their_fingerprint(seed, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps, eval_steps = SIZES["tiny"]
    config = Config(seed=seed, steps=steps, eval_steps=eval_steps, preset="tiny", shape=PRESETS["tiny"])
    options = Options(config=config, recording=Recording(), device=device, track=False)
    assert perform(options, lambda done, total, phase: None).fingerprint == GOLDEN["tiny", seed]


def test_a_quick_pair_is_equal_gated_and_has_its_fingerprint(tmp_path):
    """The answer a user gets: two fresh processes at full width, into a real store, compared and gated."""
    assert QUICK == (200, 50)
    command = [sys.executable, "-m", "foxflow", "check", "--seeds", "42", "--quick", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["verdict"] == "EQUAL"
    (pair,) = found["seeds"]
    assert (pair["gate"], pair["fingerprint"]) == ("PASS", GOLDEN["quick", 42])
    assert pair["run_a"] != pair["run_b"]


@pytest.mark.slow
def test_quick_runs_of_the_other_seeds_have_their_fingerprints(tmp_path):
    command = [sys.executable, "-m", "foxflow", "golden", str(FILE), "--seeds", "43,44", "--quick", "--track", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
