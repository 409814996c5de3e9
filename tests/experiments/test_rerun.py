"""A record's command again in a fresh process: other things are kept, the same is computed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from record.making import record as made

from foxflow import flow
from foxflow.errors import FoxflowError, Mistake
from foxflow.experiments.proof.places import recorded
from foxflow.experiments.rerun import Again, again_words, command_of, launch, rerun, started

TINY = ("run", "--seed", "42", "--preset", "tiny", "--track", "none", "--dump", "none", "--run-name", "first")
Bare = dict[str, object]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> flow.Record:
    return started(TINY, tmp_path_factory.mktemp("first"), {"OMP_NUM_THREADS": "2"})


def environment(record: flow.Record) -> dict[str, object]:
    found: dict[str, object] = json.loads(record.manifest)["environment"]
    return found


@pytest.fixture(scope="module")
def again(first: flow.Record, tmp_path_factory: pytest.TempPathFactory) -> flow.Record:
    return rerun(first, tmp_path_factory.mktemp("again"), "again", Again(stop_at=3, dump_steps=(1, 3)))


def test_a_rerun_computes_the_same_and_keeps_what_it_was_told_to(first: flow.Record, again: flow.Record) -> None:
    assert Path(again.path).parts[-3:] == ("mlruns", "records", "again")
    assert again.dump_steps == (("train", 1), ("train", 2))
    assert {row[1] for row in recorded(again, range(20))} == {0, 1, 2}
    before, after = recorded(first, range(3)), recorded(again, range(3))
    assert before.items() <= after.items()
    assert {place.buffer for place in after.keys() - before.keys()} == {"mamba_a_state", "mamba_b_state"}
    iterations = [k for batch in again.dump("train", 2) for k in batch.column("k").to_pylist()]
    assert {0, 1} <= set(iterations)


def test_schedules_threads_and_variables_are_the_recorded_ones(first: flow.Record, again: flow.Record) -> None:
    assert json.loads(again.manifest)["config"] == json.loads(first.manifest)["config"]
    assert environment(again)["variables"] == environment(first)["variables"]
    assert environment(again)["threads"] == environment(first)["threads"] == 2


def test_a_rerun_of_a_rerun_takes_the_last_word(again: flow.Record, tmp_path: Path) -> None:
    change = Again(stop_at=4, threads=1, variables={"OMP_NUM_THREADS": "3"})
    twice = rerun(again, tmp_path, "twice", change)
    assert twice.dump_steps == ()
    assert {row[1] for row in recorded(twice, range(20))} == {0, 1, 2, 3}
    assert environment(twice)["threads"] == 1
    assert environment(twice)["variables"]["OMP_NUM_THREADS"] == "3"  # type: ignore[index]


def test_a_record_without_a_command_can_not_be_run_again(tmp_path: Path) -> None:
    record = made(tmp_path / "a")
    with pytest.raises(Mistake, match=r"must hold the command that made it, got none\. Only runs of 'foxflow run'"):
        rerun(record, tmp_path, "again", Again())


def from_file(folder: Path, seal: str) -> flow.Record:
    words = ["run", "--seed", "1", "--data", str(folder / "tape.csv"), "--track", "none"]
    return made(folder / "record", command=words, data={"files": {"tape.csv": seal}})


def test_the_file_that_was_read_must_be_there_and_unchanged(tmp_path: Path) -> None:
    tape = tmp_path / "tape.csv"
    record = from_file(tmp_path, hashlib.sha256(b"ticks").hexdigest())
    with pytest.raises(Mistake, match=r"tape.csv must be there to repeat the run, got no such file"):
        command_of(record)
    tape.write_bytes(b"ticks, and one more")
    with pytest.raises(Mistake, match=r"tape.csv must have SHA-256 [0-9a-f]{12}… as the run read it, got"):
        command_of(record)
    tape.write_bytes(b"ticks")
    assert command_of(record)[0] == "run"


def test_options_are_appended_so_that_later_ones_win() -> None:
    words = again_words(("run", "--seed", "1"), "b", Again(stop_at=7, threads=3))
    assert words[3:] == ("--track", "none", "--run-name", "b", "--stop-at", "7", "--threads", "3", "--dump", "none")


def test_a_refused_option_is_the_caller_s_mistake_and_a_dead_run_is_not(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="--steps must be 1 to 1000000, got 0"):
        launch(["run", "--seed", "1", "--steps", "0"], tmp_path)
    dies = {"PYTHONHASHSEED": "no number"}
    with pytest.raises(FoxflowError, match="ended with exit code 1") as caught:
        launch(["run", "--seed", "1", "--preset", "tiny"], tmp_path, dies)
    assert not isinstance(caught.value, Mistake)
