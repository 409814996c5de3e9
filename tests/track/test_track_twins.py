"""Twins and names, in a real SQLite store."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from track.crowd import fill
from track.serving import server
from track.small_record import write

from foxflow.errors import Mistake, NoRecord
from foxflow.track import find_twin, open_run, resolve
from foxflow.track.names import run_id
from foxflow.track.store import open_store
from foxflow.track.twins import MANY

ONE, OTHER, THIRD = ("fx1:" + digit * 32 for digit in "123")


def ran(name, fingerprint, *, identity="fx1:aa", clean="true", status="FINISHED"):
    run = open_run(name, {}, {"foxflow.identity": identity, "foxflow.clean": clean})
    run.tag({"foxflow.fingerprint": fingerprint})
    run.close(None, status)
    return run.run_id


def test_the_oldest_run_that_agrees_is_the_twin_and_all_that_agree_are_counted(place):
    ran("departs", OTHER)
    first, _ = ran("first", ONE), ran("second", ONE)
    new = ran("new", ONE)
    twin = find_twin("fx1:aa", ONE, run_id=new)
    assert (twin.run_id, twin.run_name, twin.fingerprint) == (first, "first", ONE)
    assert (twin.agrees, twin.agree) == (True, 2)


def test_where_none_agrees_the_oldest_clean_run_is_the_twin(place):
    oldest = ran("oldest", OTHER)
    ran("younger", "fx1:" + "3" * 32)
    twin = find_twin("fx1:aa", ONE)
    assert (twin.run_id, twin.fingerprint, twin.agrees, twin.agree) == (oldest, OTHER, False, 0)


@pytest.mark.parametrize(
    "unfit", [{"clean": "false"}, {"identity": "fx1:bb"}, {"status": "FAILED"}, {"status": "KILLED"}]
)
def test_a_run_that_is_unclean_unfinished_or_of_another_identity_is_nobodys_twin(place, unfit):
    ran("unfit", ONE, **unfit)
    assert find_twin("fx1:aa", ONE) is None


def test_a_run_without_a_fingerprint_has_no_twin_and_is_none(place):
    ran("thinned", None)
    assert find_twin("fx1:aa", ONE) is None
    ran("whole", ONE)
    assert find_twin("fx1:aa", None) is None


def test_a_run_is_not_its_own_twin(place):
    alone = ran("alone", ONE)
    assert find_twin("fx1:aa", ONE, run_id=alone) is None


@pytest.mark.slow
@pytest.mark.parametrize(("alike", "fingerprint", "agree"), [(10_000, ONE, MANY), (30, ONE, 15), (10_000, THIRD, 0)])
def test_in_a_store_of_ten_thousand_runs_the_twin_is_found_within_two_seconds(place, alike, fingerprint, agree):
    fill(place / "mlruns" / "mlflow.db", open_store().experiment_id, 10_000, alike)
    find_twin("fx1:other", ONE)
    began = time.perf_counter()
    twin = find_twin("fx1:aa", fingerprint)
    assert time.perf_counter() - began < 2
    assert (twin.run_name, twin.agree) == ("run-0", agree)


def test_agreeing_runs_are_counted_up_to_a_bound(place):
    fill(place / "mlruns" / "mlflow.db", open_store().experiment_id, 2 * MANY + 4, 2 * MANY + 4)
    assert find_twin("fx1:aa", ONE).agree == MANY


def test_a_dirty_run_or_one_with_specimens_is_compared_and_never_becomes_a_twin(place):
    clean = ran("clean", ONE)
    ran("dirty", OTHER, clean="false")
    assert find_twin("fx1:aa", OTHER).run_id == clean
    assert not find_twin("fx1:aa", OTHER).agrees


def test_of_a_twin_that_was_deleted_and_removed_by_gc_the_next_takes_its_place(place):
    first, second = ran("first", ONE), ran("second", ONE)
    open_store().client.delete_run(first)
    assert find_twin("fx1:aa", ONE).run_id == second
    with pytest.raises(NoRecord, match=f"got {first}, a deleted run.*'mlflow runs restore'"):
        resolve(first)
    uri = open_store().uri
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "gc",
        "--tracking-uri",
        uri,
        "--backend-store-uri",
        uri,
        "--run-ids",
        first,
    ]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"})
    assert find_twin("fx1:aa", ONE).run_id == second
    with pytest.raises(NoRecord, match=f"got {first}\\. See"):
        resolve(first)


def test_an_identity_that_is_no_digest_is_refused(place):
    with pytest.raises(Mistake, match="identity must be a digest"):
        find_twin("x' OR 1=1", ONE)
    with pytest.raises(Mistake, match="fingerprint must be a digest"):
        find_twin("fx1:aa", "x' OR 1=1")


def test_without_a_store_there_is_no_twin(fresh):
    assert find_twin("fx1:aa", ONE) is None
    assert list(fresh.iterdir()) == []


def test_a_run_is_found_by_its_id_its_start_its_name_and_its_folder(place):
    run = open_run("by name", {}, {})
    run.close(write(run.record_folder))
    for name in (run.run_id, run.run_id[:6], "by name", str(run.record_folder)):
        assert resolve(name) == Path(run.record_folder)


def test_a_run_of_another_experiment_is_found(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    run = open_run("there", {}, {})
    run.close(write(run.record_folder))
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    assert resolve("there") == run.record_folder


def test_a_name_of_two_runs_is_refused_with_both_ids(place):
    ids = [ran("twice", ONE), ran("twice", ONE)]
    with pytest.raises(Mistake, match="which 2 runs match") as caught:
        resolve("twice")
    assert all(run_id in str(caught.value) for run_id in ids)
    assert not isinstance(caught.value, NoRecord)


def test_a_name_goes_before_the_start_of_an_id(place):
    other = ran("other", ONE)
    named = ran(other[0], ONE)
    assert run_id(other[0]) == named
    assert run_id(other[:8]) == run_id("other") == other


def test_a_start_of_several_ids_is_refused(place):
    starts = [ran(f"run {i}", ONE)[0] for i in range(17)]
    shared = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(Mistake, match="must name one run"):
        resolve(shared)


@pytest.mark.parametrize("name", ["nothing", "deadbeef", "it's", "no/such/folder"])
def test_what_names_no_run_is_no_record(place, name):
    ran("something", ONE)
    with pytest.raises(NoRecord, match="a run id or a run name, got"):
        resolve(name)


def test_a_run_without_a_record_is_no_record(place):
    with pytest.raises(NoRecord, match="must have a record"):
        resolve(ran("bare", ONE))


def test_resolving_without_a_store_makes_none(fresh):
    with pytest.raises(NoRecord):
        resolve("ab12")
    assert list(fresh.iterdir()) == []


@pytest.mark.slow
def test_a_record_on_a_servers_artifacts_is_downloaded(place, tmp_path):
    """A real MLflow server that keeps artifacts itself, as a team would run it."""
    pytest.importorskip("uvicorn")
    with server(tmp_path / "server") as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", made.uri)
        record = write(tmp_path / "r")
        run = open_run("remote", {"a": 1}, {})
        assert run.record_folder is None
        run.metrics(0, {"loss": 0.5})
        run.close(record)
        copy = resolve("remote")
    assert (copy / "manifest.json").read_text() == record.manifest
    assert (copy / "buffers" / "step-000001.parquet").is_file()


def test_a_server_that_is_away_is_one_line(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(Mistake, match="must open and be writable") as caught:
        open_run("away", {}, {})
    assert "\n" not in str(caught.value)
