"""Pairs of real runs: where they part is found without anybody naming a step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commanding import fresh

from foxflow import flow
from foxflow.errors import Mistake
from foxflow.experiments.locate import Located, as_json, as_text, locate

TINY = ("--preset", "tiny")


@pytest.fixture(scope="module")
def unseeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Located, list[str]]:
    said: list[str] = []
    found = locate(42, [*TINY, "--specimen", "unseeded_outcome"], tmp_path_factory.mktemp("unseeded"), said.append)
    return found, said


def test_unseeded_weights_are_found_in_step_0_with_the_step_that_they_wake_in(
    unseeded: tuple[Located, list[str]],
) -> None:
    found, said = unseeded
    (root,) = found.explanation.roots
    assert (found.step, root.where.buffer, root.cause) == (0, "outcome_w", "unseeded-init")
    assert root.wakes_at == 2
    assert any("the runs part at step 0, buffer outcome_w" in line for line in said)


def test_the_pair_that_is_explained_holds_every_byte_around_the_difference(
    unseeded: tuple[Located, list[str]],
) -> None:
    found, _ = unseeded
    for path in (found.run_a, found.run_b):
        assert (Path(path) / "buffers" / "step-000000.parquet").is_file()
    (root,) = found.explanation.roots
    assert found.dumped
    assert any("elements differ" in line for line in root.evidence)


def test_the_json_is_explain_s_with_the_pair_and_the_step(unseeded: tuple[Located, list[str]]) -> None:
    found, _ = unseeded
    said = json.loads(json.dumps(as_json(found)))
    assert (said["verdict"], said["cause"], said["located_step"]) == (flow.DIVERGED, "unseeded-init", 0)
    assert (said["run_a"], said["run_b"]) == (found.run_a, found.run_b)
    assert f"foxflow prove {found.run_a} {found.run_b}" in as_text(found)


def test_equal_runs_have_no_step_and_exit_with_0(tmp_path: Path) -> None:
    code, out, err = fresh(tmp_path, "locate", "--seed", "7", *TINY, "--json", "--folder", "kept", "--stop-at", "2")
    said = json.loads(out)
    assert (code, said["verdict"], said["located_step"], said["roots"]) == (0, flow.EQUAL, None, [])
    assert "seed 7: EQUAL" in err
    assert (tmp_path / "kept" / "mlruns" / "records" / "b" / "manifest.json").is_file()


def test_a_second_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="foxflow locate must take its seed from its own --seed, got two"):
        locate(1, ["--seed=2"], tmp_path, print)


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "producer"), [("iqn_race", "iqn_tau_cos"), ("per_fence", "per_rebuild")])
def test_a_race_is_found_at_the_default_shape(tmp_path: Path, specimen: str, producer: str) -> None:
    said: list[str] = []
    found = locate(42, ["--steps", "200", "--stop-at", "3", "--specimen", specimen], tmp_path, said.append)
    root = found.explanation.roots[0]
    assert (root.producer, root.cause, found.dumped) == (producer, "race", True)
    assert found.step is not None
