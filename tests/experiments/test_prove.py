"""Experiments on real pairs: the true cause is proven, a clean pair and a wrongly accused kernel are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from record.making import record as made
from record.making import steps as taken

from foxflow import flow
from foxflow.determinism.specimens import SPECIMENS
from foxflow.errors import CorruptRecord, Mistake
from foxflow.experiments.proof.places import Graph, Place
from foxflow.experiments.proof.scene import stretches
from foxflow.experiments.proof.worker import work
from foxflow.experiments.prove import Options, as_json, as_text, prove
from foxflow.experiments.rerun import started

DUMPED = ("--dump", "all", "--dump-k")
TINY = ("run", "--seed", "42", "--preset", "tiny", "--track", "none", "--stop-at", "3", *DUMPED)
Pair = tuple[flow.Record, flow.Record]


def pair(folder: Path, *words: str) -> Pair:
    a, b = (started([*words, "--run-name", side], folder, {}) for side in "ab")
    return a, b


def outcomes(proof: flow.Proof) -> dict[str, flow.Experiment]:
    return {experiment.name: experiment for experiment in proof.experiments}


@pytest.fixture(scope="module")
def unseeded(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("unseeded"), *TINY, "--specimen", "unseeded_outcome")


@pytest.fixture(scope="module")
def proof(unseeded: Pair, tmp_path_factory: pytest.TempPathFactory) -> flow.Proof:
    folder = tmp_path_factory.mktemp("proof") / "kept"
    return prove(*unseeded, Options(folder=folder), lambda line: None)


def test_unseeded_weights_are_proven_by_starting_again(proof: flow.Proof) -> None:
    assert proof.accused is not None
    assert (proof.accused.where.buffer, proof.proven) == ("outcome_w", True)
    found = outcomes(proof)
    assert list(found) == ["init-twice", "graft"]
    assert (found["init-twice"].reproduced, found["init-twice"].repeats) == (True, 3)
    assert found["init-twice"].outcome == "3 distinct initial values in 3 fresh processes"


def test_a_graft_of_run_a_s_weights_heals_run_b_and_proves_nothing_by_itself(proof: flow.Proof) -> None:
    graft = outcomes(proof)["graft"]
    assert (graft.outcome, graft.reproduced) == ("2 of 2 followers become EQUAL", False)


def test_what_was_found_is_kept_with_digests_and_commands(proof: flow.Proof) -> None:
    folder = Path(str(proof.folder))
    kept = json.loads((folder / "proof.json").read_text())
    assert kept["proven"] is True
    assert all(experiment["command"].startswith("cd ") for experiment in kept["experiments"])
    job, (result, *_) = (json.loads((folder / f"graft{end}").read_text()) for end in (".json", ".result.json"))
    assert all(digest.startswith("fx1:") for _, _, digest in job["values"])
    assert result["digests"][0].startswith("fx1:")


def test_bytes_that_do_not_have_their_digest_are_not_computed_with(proof: flow.Proof) -> None:
    job = json.loads((Path(str(proof.folder)) / "graft.json").read_text())
    place, record, _ = job["values"][0]
    job["values"][0] = [place, record, "fx1:" + "0" * 32]
    with pytest.raises(CorruptRecord, match="its bytes do not have its digest"):
        work(job)


def test_the_json_is_explain_s_with_the_proof(proof: flow.Proof) -> None:
    said = json.loads(json.dumps(as_json(proof)))
    assert (said["verdict"], said["cause"], said["proven"]) == (flow.DIVERGED, "unseeded-init", True)
    assert said["accused"]["buffer"] == "outcome_w"
    fields = {"name", "repeats", "outcome", "meaning", "reproduced", "command"}
    assert all(set(experiment) == fields for experiment in said["experiments"])
    assert "proven      yes" in as_text(proof)


def test_a_kernel_that_only_follows_is_not_proven(unseeded: Pair, tmp_path: Path) -> None:
    options = Options(accuse="outcome_logits", repeats=5, folder=tmp_path / "kept")
    proof = prove(*unseeded, options, lambda line: None)
    found = outcomes(proof)
    assert not proof.proven
    assert list(found) == ["replay", "one-thread", "poison", "rerun", "graft"]
    own = "A's recorded digest is among them, B's recorded digest is not among them"
    assert found["replay"].outcome == f"1 distinct result in 5; {own}"
    assert found["rerun"].outcome == "4 distinct results in 4 fresh processes, 1 on equal inputs"


def test_of_a_clean_pair_nobody_is_accused(unseeded: Pair) -> None:
    """A record beside itself: nothing differs."""
    a, _ = unseeded
    proof = prove(a, a, Options(), lambda line: None)
    assert (proof.accused, proof.experiments, proof.proven, proof.folder) == (None, (), False, None)
    assert "nobody is accused" in as_text(proof)


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["iqn_cos", "per_tree", "outcome_w", "grad_in_w", "q_logits"])
def test_of_a_clean_pair_no_kernel_is_proven_however_accused(tmp_path: Path, buffer: str) -> None:
    """Without dumps: the inputs come from a rerun."""
    runs = pair(tmp_path, *TINY, "--dump", "none")
    proof = prove(*runs, Options(accuse=buffer, folder=tmp_path / "kept"), lambda line: None)
    assert not proof.proven
    assert not any("not done" in e.outcome for e in proof.experiments if e.name != "graft")
    assert "do not part" in outcomes(proof)["graft"].outcome


@pytest.mark.slow
@pytest.mark.parametrize("specimen", sorted(name for name, s in SPECIMENS.items() if "cpu" in s.devices))
def test_each_specimen_is_proven_at_the_default_shape(tmp_path: Path, specimen: str) -> None:
    words = ("run", "--seed", "42", "--steps", "200", "--stop-at", "2", "--track", "none", *DUMPED)
    proof = prove(*pair(tmp_path, *words, "--specimen", specimen), Options(folder=tmp_path / "k"), lambda line: None)
    assert proof.accused is not None
    assert proof.accused.where.buffer in SPECIMENS[specimen].buffers
    assert proof.proven
    graft = outcomes(proof)["graft"].outcome
    healed, _, followers = graft.removesuffix(" followers become EQUAL").partition(" of ")
    assert healed == followers or graft == "no follower in its step"


def test_an_accused_buffer_must_be_one_of_the_dataflow(unseeded: Pair) -> None:
    with pytest.raises(Mistake, match="--accuse must name a buffer of the dataflow, got 'outcome'"):
        prove(*unseeded, Options(accuse="outcome"), lambda line: None)


@pytest.mark.parametrize("repeats", [1, 10_001])
def test_repeats_must_be_a_number_that_can_tell_something(unseeded: Pair, repeats: int) -> None:
    with pytest.raises(Mistake, match=f"--repeats must be 2 to 10000, got {repeats}"):
        prove(*unseeded, Options(repeats=repeats), lambda line: None)


def test_a_record_of_another_program_can_not_be_proven(tmp_path: Path) -> None:
    a = made(tmp_path / "a")
    b = made(tmp_path / "b", taken(edit=lambda step, k, buffer, array: array + (step == 2)))
    with pytest.raises(Mistake, match="must hold the command that made it"):
        prove(a, b, Options(), lambda line: None)


def test_the_outputs_of_one_kernel_are_grafted_together_in_every_iteration(unseeded: Pair) -> None:
    graph = Graph(json.loads(unseeded[0].manifest))
    names = ("iqn_tau", "iqn_cos", "iqn_cos_target", "iqn_q_values", "per_tree")
    among = [Place(flow.TRAIN, step, k, name) for step in (0, 1) for k in (0, 1) for name in names]
    found = graph.siblings(Place(flow.TRAIN, 1, 0, "iqn_cos"), among)
    assert found == [Place(flow.TRAIN, 1, k, name) for k in (0, 1) for name in names[:3]]


def test_stretches_are_of_consecutive_steps() -> None:
    assert stretches([4, 0, 5, 9]) == [(0, 1), (4, 6), (9, 10)]
