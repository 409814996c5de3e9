"""Files added to a run that is over."""

from pathlib import Path

from foxflow.track import attach, open_run, sync
from foxflow.track.store import open_store


def ended():
    run = open_run("over", {}, {})
    run.close(None)
    return run.run_id


def content(run_id, name):
    return Path(open_store().client.download_artifacts(run_id, name)).read_bytes()


def test_files_lie_at_the_root_of_the_run_and_new_ones_take_their_place(place):
    run_id = ended()
    assert attach(run_id, {"report.html": b"one", "divergence.png": b"\x89PNG"}, {"foxflow.verdict": "first"}) is None
    assert attach(run_id, {"report.html": b"two"}, {"foxflow.verdict": "EQUAL"}) is None
    assert (content(run_id, "report.html"), content(run_id, "divergence.png")) == (b"two", b"\x89PNG")
    run = open_store().client.get_run(run_id)
    assert (run.info.status, run.data.tags["foxflow.verdict"]) == ("FINISHED", "EQUAL")


def test_a_store_that_takes_no_files_still_takes_the_tags_and_the_other_way_round(place):
    run_id = ended()
    assert "no?name" in str(attach(run_id, {"report.html": b"kept"}, {"no?name": "x"}))
    assert content(run_id, "report.html") == b"kept"
    run_id = ended()
    artifacts = Path(open_store().client.get_run(run_id).info.artifact_uri.removeprefix("file://"))
    artifacts.parent.mkdir(parents=True, exist_ok=True)
    artifacts.write_text("a file where the folder should be")
    assert attach(run_id, {"report.html": b"x"}, {"foxflow.verdict": "EQUAL"}) is not None
    assert open_store().client.get_run(run_id).data.tags["foxflow.verdict"] == "EQUAL"


def test_a_run_that_the_store_does_not_have_is_said_in_a_line(place):
    ended()
    said = attach("0" * 32, {"report.html": b"x"}, {})
    assert said is not None
    assert "no such run" in said


def test_a_store_that_can_t_be_opened_is_said_in_a_line(place):
    run_id = ended()
    Path("mlruns/mlflow.db").write_bytes(b"no database" * 100)
    said = attach(run_id, {"report.html": b"x"}, {})
    assert said is not None
    assert "file is not a database" in said
    assert said.endswith(f"What it lacks waits in mlruns/spool/{run_id}, 'foxflow sync' sends it.")


def test_files_of_a_folder_wait_in_the_spool_of_a_broken_store_and_sync_sends_them_without_ending_the_run_again(place):
    run_id = ended()
    before = open_store().client.get_run(run_id).info
    store = Path("mlruns/mlflow.db")
    whole = store.read_bytes()
    store.write_bytes(b"no database" * 100)
    assert attach(run_id, {"gate/index.html": b"docs"}, {"foxflow.verdict": "EQUAL"}) is not None
    store.write_bytes(whole)
    assert [(one.run_id, one.parts, one.waits) for one in sync()] == [(run_id, 2, None)]
    assert content(run_id, "gate/index.html") == b"docs"
    after = open_store().client.get_run(run_id)
    assert (after.info.status, after.info.end_time) == (before.status, before.end_time)
    assert after.data.tags["foxflow.verdict"] == "EQUAL"
    assert sync() == ()


def test_a_run_that_still_goes_on_takes_no_files_from_outside(place):
    with open_run("going on", {}, {}) as run:
        assert "be over" in str(attach(run.run_id, {"report.html": b"x"}, {}))
