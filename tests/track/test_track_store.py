"""Stores: made once and safely, refused in one line."""

import os
import subprocess
import sys

import pytest

from foxflow.errors import Mistake
from foxflow.track import open_run, store
from foxflow.track.store import find_store, open_store

OPEN = """
import sys
from foxflow import track
run = track.open_run(sys.argv[1], {"seed": 1}, {})
run.metrics(0, {"loss": 1.0})
run.close(None)
print(run.run_id)
"""


def test_the_store_is_the_folders_own_sqlite_file_unless_the_variable_names_another(fresh, monkeypatch):
    assert store() == f"sqlite:///{fresh}/mlruns/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert store() == "http://127.0.0.1:5000"


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns", "./mlruns"])
def test_a_folder_store_is_refused(fresh, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(Mistake, match="must be a database or a server"):
        store()


def test_a_path_that_sqlite_addresses_cannot_carry_is_refused(fresh, monkeypatch):
    (fresh / "50%").mkdir()
    monkeypatch.chdir(fresh / "50%")
    with pytest.raises(Mistake, match="no '%'"):
        store()


@pytest.mark.slow
def test_sixteen_processes_that_start_at_once_on_a_fresh_folder_all_get_a_run(fresh):
    command = [sys.executable, "-c", OPEN]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    started = [
        subprocess.Popen(
            [*command, f"run-{i}"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for i in range(16)
    ]
    ended = [(*child.communicate(timeout=480), child.returncode) for child in started]
    assert [code for _, _, code in ended] == [0] * 16, ended
    opened = open_store()
    runs = opened.client.search_runs([opened.experiment_id])
    assert {run.info.run_id for run in runs} == {out.strip() for out, _, _ in ended}
    assert {(run.info.status, run.data.metrics["loss"]) for run in runs} == {("FINISHED", 1.0)}


def test_making_a_store_says_nothing_and_sends_nothing(fresh):
    code = OPEN + "import mlflow.telemetry.client as t; assert t.get_telemetry_client() is None\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ended = subprocess.run(
        [sys.executable, "-c", code, "n"], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    assert len(ended.stdout.split()) == 1
    assert sorted(p.name for p in (fresh / "mlruns").iterdir()) == [".mlflow.lock", "mlflow.db", "spool"]
    assert list((fresh / "mlruns" / "spool").iterdir()) == []


def test_a_path_with_spaces_and_hashes_holds_a_store_and_its_artifacts(place, monkeypatch):
    odd = place / "a b#c"
    odd.mkdir()
    (place / "mlruns").rename(odd / "mlruns")
    monkeypatch.chdir(odd)
    assert open_run("x", {}, {}).record_folder.parent.parent.parent == odd / "mlruns" / "foxflow"


def test_a_file_where_the_folder_should_be_is_one_line(fresh):
    (fresh / "mlruns").write_text("not a folder")
    with pytest.raises(Mistake, match=r"must open and be writable, got .*exists") as caught:
        open_store()
    assert "\n" not in str(caught.value)


def test_a_store_that_cannot_be_made_leaves_no_half_of_it(fresh):
    (fresh / "mlruns" / ".mlflow.db.new").mkdir(parents=True)
    with pytest.raises(Mistake, match="must open and be writable"):
        open_store()
    assert not (fresh / "mlruns" / "mlflow.db").exists()


@pytest.mark.parametrize("opener", [open_store, find_store])
def test_a_file_that_is_no_database_is_one_line_at_once(fresh, opener):
    (fresh / "mlruns").mkdir()
    (fresh / "mlruns" / "mlflow.db").write_bytes(b"garbage " * 1000)
    with pytest.raises(Mistake, match="file is not a database"):
        opener()


def test_a_deleted_experiment_is_refused(place):
    opened = open_store()
    opened.client.delete_experiment(opened.experiment_id)
    with pytest.raises(Mistake, match="must be active, got foxflow, deleted"):
        open_store()


def test_looking_makes_nothing(fresh):
    assert find_store() is None
    assert list(fresh.iterdir()) == []


def test_the_experiment_is_named_by_the_variable(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "team/a")
    opened = open_store()
    assert opened.client.get_experiment(opened.experiment_id).name == "team/a"
    assert open_run("x", {}, {}).record_folder.is_relative_to(place / "mlruns" / "team_a")


def test_importing_track_loads_nothing_heavy():
    code = "import sys, foxflow.track; print({'mlflow', 'sqlalchemy', 'pandas', 'pyarrow', 'torch'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
