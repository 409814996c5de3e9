"""A store that goes away, refuses or forgets costs nothing: a real MLflow server behind a gatekeeper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from track.serving import ROOT, Gatekeeper, server
from track.small_record import write

from foxflow.errors import Mistake
from foxflow.track import open_run, sync
from foxflow.track.journal import FOLDER, Journal
from foxflow.track.store import open_store

ONE = "fx1:" + "1" * 32
KILLED_RUN = """
from foxflow import track
run = track.open_run("dies", {"a": 1}, {})
run.tag({"late": "yes"})
print(run.run_id, flush=True)
import time; time.sleep(600)
"""


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    with server(tmp_path_factory.mktemp("mlflow")) as made:
        yield made


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """One record for all runs: two writings differ in their times."""
    return write(tmp_path_factory.mktemp("records") / "record")


@pytest.fixture
def keeper(behind, fresh, monkeypatch):
    """A gatekeeper that lets everything pass, and no patience with it."""
    made = Gatekeeper(behind)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", made.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    yield made
    made.close()


def started(name="lost"):
    return open_run(name, {"a": 1, "b": "x"}, {"foxflow.identity": "fx1:aa", "foxflow.clean": "true"})


def filled(run, record):
    """Everything that a run can tell; closed."""
    for step in range(30):
        run.metrics(step, {f"m/{i}": step + i / 8 for i in range(50)})
    run.tag({"t": "1"})
    run.data("tape", "ab" * 32, {"seed": 1})
    run.look_for_twin("fx1:aa", None)
    run.close(record)
    return run.run_id


def told(run_id):
    """All that MLflow has of a run, but names, ids, times and the machine's load."""
    client = open_store().client
    run = client.get_run(run_id)
    folder = Path(client.download_artifacts(run_id, ""))
    unlike = ("mlflow.runName", "foxflow.process", "foxflow.twin", "foxflow.verdict")
    return {
        "status": run.info.status,
        "params": run.data.params,
        "tags": {key: value for key, value in run.data.tags.items() if key not in unlike},
        "data": [(used.dataset.name, used.dataset.digest, used.dataset.source) for used in run.inputs.dataset_inputs],
        "metrics": {
            key: [(m.step, m.value) for m in client.get_metric_history(run_id, key)]
            for key in run.data.metrics
            if not key.startswith("system/")
        },
        "files": {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()},
    }


@pytest.fixture
def whole(keeper, record):
    """What a run tells that never lost its store."""
    return told(filled(started("whole"), record))


def spooled():
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def foxflow(*words, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "foxflow", *words],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_run_that_reaches_its_store_leaves_nothing_in_the_spool(whole):
    assert whole["status"] == "FINISHED"
    assert len(whole["metrics"]["m/7"]) == 30
    assert {"checksums.json", "record/manifest.json", "record/buffers/step-000000.parquet"} <= set(whole["files"])
    assert spooled() == []
    assert sync() == ()


@pytest.mark.parametrize(
    ("refuse", "status", "says"),
    [
        (lambda method, path: "log-batch" in path, 403, "it gives no right to write (403)"),
        (lambda method, path: "set-tag" in path or "log-batch" in path, 401, "a name and a password (401)"),
        (lambda method, path: method == "PUT", 413, "no file of this size (quota)"),
        (lambda method, path: method == "PUT", 507, "no file of this size (quota)"),
        (lambda method, path: method == "PUT", 500, "it fails on its own side"),
        (lambda method, path: True, 503, "it fails on its own side"),
    ],
    ids=["no right", "unknown", "quota", "full", "broken", "all broken"],
)
def test_what_a_store_refuses_is_said_and_sent_later(keeper, whole, record, refuse, status, says):
    run = started()
    keeper.rule = lambda method, path, length: status if refuse(method, path) else None
    run_id = filled(run, record)
    assert says in run.unsent
    assert "'foxflow sync' sends the rest" in run.unsent
    assert "\n" not in run.unsent
    (waits,) = sync()
    assert says in waits.waits
    assert spooled() == [run_id]
    keeper.rule = lambda *_: None
    (sent,) = sync()
    assert (sent.run_id, sent.waits) == (run_id, None)
    assert told(run_id) == whole
    assert spooled() == []


def test_what_arrived_though_its_answer_was_lost_is_not_there_twice(keeper, whole, record):
    run = started()
    keeper.swallow = lambda method, path, length: 502 if method != "GET" else None
    run_id = filled(run, record)
    assert run.unsent
    keeper.swallow = lambda *_: None
    sync()
    assert told(run_id) == whole


def test_a_store_that_is_back_before_the_end_gets_everything_without_sync(keeper, whole, record):
    run = started()
    keeper.rule = lambda method, path, length: 403 if "log-batch" in path else None
    run.tag({"t": "1"})
    keeper.rule = lambda *_: None
    run_id = filled(run, record)
    assert run.unsent is None
    assert told(run_id) == whole


def test_a_wrong_password_at_the_start_is_one_line_and_leaves_nothing(keeper, monkeypatch, record):
    keeper.password = "right"
    with pytest.raises(Mistake, match=r"a name and a password \(401\): set MLFLOW_TRACKING_USERNAME"):
        started()
    assert not FOLDER.exists()
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "fox")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "right")
    assert filled(started(), record)
    assert spooled() == []


def test_parameters_that_the_store_refuses_stop_the_run_before_it_computes(keeper):
    keeper.rule = lambda method, path, length: 403 if "log-batch" in path else None
    with pytest.raises(Mistake, match="must take the parameters of a run, got it gives no right"):
        started()
    assert spooled() == []


def test_a_run_that_was_deleted_while_it_ran_is_complete_after_it_is_restored(keeper, whole, record):
    run = started()
    client = open_store().client
    client.delete_run(run.run_id)
    run_id = filled(run, record)
    assert "deleted there: 'mlflow runs restore" in run.unsent
    client.restore_run(run_id)
    assert sync()[0].waits is None
    assert told(run_id) == whole


def test_of_an_unknown_run_the_spool_is_kept_and_the_store_is_named_as_what_it_lacks(keeper, record):
    run = started()
    keeper.rule = lambda *_: 503
    filled(run, record)
    keeper.rule = lambda *_: None
    folder = FOLDER / run.run_id
    other = folder.rename(FOLDER / ("0" * 32))
    (waits,) = sync()
    assert "it has no such run" in waits.waits
    assert (other / "journal.jsonl").is_file()


def test_a_killed_sync_is_continued_by_the_next(keeper, whole, record):
    run = started()
    keeper.rule = lambda *_: 503
    run_id = filled(run, record)
    puts = []

    def stall(method, path, length):
        puts.append(path) if method == "PUT" else None
        time.sleep(600) if len(puts) > 2 else None

    keeper.rule = stall
    child = foxflow("sync")
    until = time.monotonic() + 120
    while len(puts) <= 2 and time.monotonic() < until:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    assert len(puts) == 3
    keeper.rule = lambda *_: None
    assert sync()[0].waits is None
    assert told(run_id) == whole
    assert [path for method, path in keeper.seen if method == "PUT"].count(puts[0]) == 1


def test_of_two_syncs_at_once_one_sends(keeper, whole, record):
    run = started()
    keeper.rule = lambda *_: 503
    run_id = filled(run, record)
    keeper.rule = lambda *_: None
    keeper.seen.clear()
    both = [foxflow("sync", "--json") for _ in range(2)]
    said = [json.loads(child.communicate(timeout=240)[0]) for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert sorted(len(one["runs"]) for one in said) == [0, 1]
    puts = [path for method, path in keeper.seen if method == "PUT"]
    assert len(puts) == len(set(puts)) == len(whole["files"])
    assert told(run_id) == whole


def test_sync_leaves_a_living_run_alone_and_ends_a_killed_one(keeper, record):
    living = started("living")
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    run_id = child.stdout.readline().strip()
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    with (FOLDER / run_id / "journal.jsonl").open("a") as journal:
        journal.write('{"n": 9, "tags": {"torn')
    assert [one.run_id for one in sync()] == [run_id]
    got = open_store().client.get_run(run_id)
    assert (got.info.status, got.data.tags["late"]) == ("KILLED", "yes")
    filled(living, record)
    assert told(living.run_id)["status"] == "FINISHED"


def test_the_twin_is_looked_for_later_as_it_would_have_been_then(keeper, record):
    identity = f"fx1:{time.time_ns():x}"

    def ran(name, *, away=False):
        run = open_run(name, {}, {"foxflow.identity": identity, "foxflow.clean": "true", "foxflow.fingerprint": ONE})
        keeper.rule = lambda *_: 503 if away else None
        run.look_for_twin(identity, ONE)
        run.close(None)
        keeper.rule = lambda *_: None
        return run

    lost = ran("lost", away=True)
    assert (lost.twin, bool(lost.unsent)) == (None, True)
    later = ran("later")
    assert later.twin is None
    sync()
    tags = open_store().client.get_run(lost.run_id).data.tags
    assert (tags["foxflow.verdict"], tags.get("foxflow.twin")) == ("first", None)


def test_a_spool_that_cannot_be_written_is_one_line(fresh):
    (fresh / "mlruns").mkdir()
    (fresh / "mlruns" / "spool").write_text("not a folder")
    with pytest.raises(Mistake, match="mlruns/spool must be writable"):
        Journal.start("ab", {})


def test_the_spool_holds_no_password(fresh, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://fox:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(Mistake) as caught:
        started()
    assert "secret" not in str(caught.value)
