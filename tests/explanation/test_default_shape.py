"""Both bugs of the note as they really are, at the default shape, from the command line in fresh processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commanding import fresh


@pytest.mark.slow
def test_both_specimens_are_two_roots_and_the_dormant_one_wakes_in_step_2(tmp_path: Path) -> None:
    words = ("run", "--seed", "42", "--steps", "200", "--stop-at", "4", "--track", "none")
    for name in ("a", "b"):
        assert fresh(tmp_path, *words, "--run-name", name, "--specimen", "iqn_race,unseeded_outcome")[0] == 0
    code, out, _ = fresh(tmp_path, "explain", "mlruns/records/a", "mlruns/records/b", "--json")
    found = json.loads(out)
    assert (code, found["verdict"]) == (1, "DIVERGED")
    outcome, race = found["roots"]
    assert [outcome[name] for name in ("buffer", "step", "producer", "cause", "wakes_at")] == [
        *("outcome_w", 0, "init_outcome", "unseeded-init", 2),
    ]
    assert race["buffer"] in ("iqn_cos", "iqn_cos_target")
    assert [race[name] for name in ("step", "producer", "cause", "confidence")] == [0, "iqn_tau_cos", "race", "certain"]
    assert race["repeats"] > 1
