"""One run in a real SQLite store."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from track.small_record import STEPS, write

from foxflow.errors import CorruptRecord, Mistake
from foxflow.track import open_run
from foxflow.track.store import open_store

HANG = """
import sys, time
from foxflow import track
run = track.open_run("hangs", {}, {})
print(run.run_id, flush=True)
time.sleep(600)
"""


def fetched(run_id):
    return open_store().client.get_run(run_id)


def artifact(run_id, name):
    opened = open_store()
    return Path(opened.client.download_artifacts(run_id, name))


def test_every_finite_metric_arrives_with_its_step_and_the_others_are_counted(place):
    run = open_run("m", {}, {})
    for step in range(9):
        run.metrics(step, {f"m.{i}": step + i / 8 for i in range(250)})
    run.metrics(9, {"m.0": float("nan"), "m.1": float("inf"), "m.2": None, "m.3": -0.5})
    run.close(None)
    client = open_store().client
    assert [(m.step, m.value) for m in client.get_metric_history(run.run_id, "m.249")] == [
        (step, step + 249 / 8) for step in range(9)
    ]
    assert len(client.get_metric_history(run.run_id, "m.0")) == 9
    assert client.get_metric_history(run.run_id, "m.3")[-1].value == -0.5
    assert fetched(run.run_id).data.tags["foxflow.metrics_skipped"] == "3"


def test_parameters_and_tags_beyond_one_batch_arrive(place):
    run = open_run(
        "p", {"a": {"b": 1}, "name": "x", **{f"p{i}": i for i in range(150)}}, {f"t{i}": str(i) for i in range(150)}
    )
    run.tag({f"u{i}": i for i in range(150)})
    data = fetched(run.run_id).data
    assert (data.params["a.b"], data.params["name"], data.params["p149"]) == ("1", "x", "149")
    assert (data.tags["t149"], data.tags["u149"]) == ("149", "149")


def test_closing_adds_the_record_its_tags_and_the_table_of_checksums(place, tmp_path):
    record = write(tmp_path / "elsewhere")
    run = open_run("c", {}, {})
    run.close(record)
    got = fetched(run.run_id)
    assert got.info.status == "FINISHED"
    assert got.data.tags["foxflow.fingerprint"] == json.loads(record.manifest)["fingerprint"]
    assert (got.data.tags["foxflow.seed"], got.data.tags["foxflow.complete"]) == ("42", "true")
    assert len(got.data.tags["foxflow.manifest"]) == 64
    assert (run.record_folder / "digests.parquet").read_bytes() == (
        tmp_path / "elsewhere" / "digests.parquet"
    ).read_bytes()
    table = json.loads(artifact(run.run_id, "checksums.json").read_text())
    assert table["columns"] == ["where", "digest", "step", "phase", "group", "buffer"]
    assert sorted({row[2] for row in table["data"]}) == [0, 1, STEPS - 1]
    assert len({row[0] for row in table["data"]}) == len(table["data"]), "MLflow gathers rows by the first column"
    last_k = [
        row for row in record.digests().__next__().to_pylist() if row["buffer"] == "iqn_q_values" and row["k"] == 1
    ]
    place_of_it = ["step 0, H, iqn_q_values", last_k[0]["digest"][:20], 0, "train", "H", "iqn_q_values"]
    assert place_of_it in table["data"]
    assert len(table["data"]) == 9


def test_a_record_written_where_artifacts_lie_is_not_copied(place):
    run = open_run("r", {}, {})
    record = write(run.record_folder)
    before = (run.record_folder / "digests.parquet").stat()
    run.close(record)
    after = (run.record_folder / "digests.parquet").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_manifests_tag_changes_with_one_byte_of_the_manifest(place, tmp_path):
    tags = []
    for name, seed in (("a", 42), ("b", 43)):
        run = open_run(name, {}, {})
        run.close(write(tmp_path / name, manifest={"seed": seed}))
        tags.append(fetched(run.run_id).data.tags["foxflow.manifest"])
    assert tags[0] != tags[1]


@pytest.mark.parametrize(("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_a_run_that_is_left_early_ends_as_what_happened(place, error, status):
    run = open_run("e", {}, {})

    def leave():
        with run:
            run.metrics(0, {"loss": 1.0})
            raise error

    with pytest.raises(error):
        leave()
    got = fetched(run.run_id)
    assert (got.info.status, got.data.metrics["loss"]) == (status, 1.0)


def test_a_run_whose_process_was_killed_is_marked_so_by_the_next_and_a_living_one_is_left_alone(place):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen([sys.executable, "-c", HANG], env=environment, stdout=subprocess.PIPE, text=True)
    run_id = child.stdout.readline().strip()
    living = open_run("next", {}, {})
    assert fetched(run_id).info.status == "RUNNING"
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    open_run("later", {}, {})
    assert fetched(run_id).info.status == "KILLED"
    assert fetched(living.run_id).info.status == "RUNNING"


def test_metrics_that_the_store_refuses_fail_the_run_and_are_told(place, tmp_path):
    run = open_run("bad", {}, {})
    run.metrics(0, {"a name with #!?": 1.0})
    with pytest.raises(Mistake, match="must take its metrics") as caught:
        run.close(write(tmp_path / "r"))
    assert "\n" not in str(caught.value)
    assert fetched(run.run_id).info.status == "FAILED"
    assert (run.record_folder / "manifest.json").is_file()


def test_a_record_that_cannot_be_read_fails_the_run(place, tmp_path):
    record = write(tmp_path / "r")
    (tmp_path / "r" / "digests.parquet").unlink()
    run = open_run("gone", {}, {})
    with pytest.raises(CorruptRecord):
        run.close(record)
    assert fetched(run.run_id).info.status == "FAILED"


def test_the_loop_waits_for_no_metric(place):
    """The bound of benchmarks/track.py, with room for a busy machine."""
    run = open_run("fast", {}, {})
    values = {f"m.{i}": i / 8 for i in range(250)}
    began = time.perf_counter()
    for step in range(40):
        run.metrics(step, values)
    assert time.perf_counter() - began < 0.2
    run.close(None)
    assert fetched(run.run_id).data.metrics["m.249"] == 249 / 8
