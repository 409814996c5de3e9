"""The note's two bugs on real tiny runs: roots, causes, when the dormant one wakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from explanation.making import LIGHT, nothing, other_quantiles, raced, run, unseeded_outcome, written
from train.running import STEPS, TINY

import foxflow
from foxflow import flow
from foxflow.train.trainer import Trainer


def both(made: Trainer) -> None:
    unseeded_outcome(made)
    other_quantiles(made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records clean, outcome, race, both; and without the groups M and I."""
    made = tmp_path_factory.mktemp("bugs")
    clean, light = run(), run(recording=LIGHT)
    written(made / "clean", clean)
    written(made / "outcome", run(unseeded_outcome))
    written(made / "race", raced(run(other_quantiles), clean))
    written(made / "both", raced(run(both), clean))
    written(made / "light", light)
    written(made / "light_race", raced(run(other_quantiles, LIGHT), light))
    return made


def roots(folder: Path, name: str, clean: str = "clean") -> list[tuple[object, ...]]:
    found = foxflow.explain(folder / clean, folder / name).roots
    return [(r.where.buffer, r.where.step, r.where.k, r.producer, r.cause, r.confidence, r.wakes_at) for r in found]


OUTCOME = ("outcome_w", 0, None, "init_outcome", "unseeded-init", "certain", 2)
RACE = ("iqn_cos", 0, 0, "iqn_tau_cos", "race", "certain", None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("clean", []), ("outcome", [OUTCOME]), ("race", [RACE]), ("both", [OUTCOME, RACE])],
)
def test_each_bug_is_one_root_and_both_are_two(folder: Path, name: str, expected: list[object]) -> None:
    assert roots(folder, name) == expected


def test_the_order_of_the_two_records_changes_no_root(folder: Path) -> None:
    assert roots(folder, "clean", "both") == [OUTCOME, RACE]


def test_a_race_is_named_after_its_largest_output_and_comes_back_in_every_iteration(folder: Path) -> None:
    (found,) = foxflow.explain(folder / "clean", folder / "race").roots
    assert found.also == ("iqn_tau", "iqn_tau_target", "iqn_cos_target")
    assert found.repeats == STEPS * TINY.K
    assert f"begins anew at {STEPS * TINY.K} places: steps 0-{STEPS - 1}" in found.evidence
    assert "the input of iqn_tau_cos is EQUAL" in found.sentence


def test_the_sentence_of_the_dormant_bug_names_the_step_that_wakes_it(folder: Path) -> None:
    found = foxflow.explain(folder / "clean", folder / "both")
    assert found.sentence == (
        "outcome_w (group K) differs as step 0 starts: init_outcome drew other values, so it is not seeded by the "
        "run's seed. It stays dormant, changing no state but itself, until step 2 wakes it."
    )
    assert found.case == ("K or W as the run starts: initialisation, at step 0 (H, K, L, M, R differ, outcome_w first)")


def test_a_clean_pair_has_no_root_and_the_sentence_says_so(folder: Path) -> None:
    found = foxflow.explain(folder / "clean", folder / "clean")
    assert (found.roots, found.case, found.ask) == ((), None, ())
    assert found.sentence == f"No divergence: {found.comparison.compared} buffers compared, all EQUAL."


def test_what_was_not_captured_leaves_the_root_open_and_is_asked_for(folder: Path) -> None:
    found = foxflow.explain(folder / "light", folder / "light_race")
    assert [(r.where.buffer, r.where.step, r.confidence) for r in found.roots] == [
        ("iqn_q_values", 0, "open"),
        ("iqn_q_target", 0, "open"),
    ]
    assert "iqn_fwd or iqn_cos began it" in found.sentence
    assert found.ask[0] == (
        "does iqn_cos differ? Run both again with --record all --dump mamba2 --dump-k --dump-steps 0:1"
    )


def test_a_difference_that_went_through_buffers_that_were_not_captured_is_no_root(tmp_path: Path) -> None:
    """The outcome head reaches the trunk's gradients through scratches of group I, which light leaves out."""
    written(tmp_path / "a", run(nothing, LIGHT))
    written(tmp_path / "b", run(unseeded_outcome, LIGHT))
    assert roots(tmp_path, "b", "a") == [OUTCOME]


def test_followers_are_counted_and_the_first_is_named(folder: Path) -> None:
    found = foxflow.explain(folder / "clean", folder / "outcome")
    differing = found.comparison.differing
    assert f"{differing - 1} differing buffers behind it, the first outcome_logits at step 0, k 0" in (
        found.roots[0].evidence
    )
    assert found.comparison.verdict == flow.DIVERGED
