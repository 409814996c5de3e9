"""report.html and divergence.png among the artifacts of tracked runs, where MLflow shows them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli.commanding import here
from report.reading import parsed
from track.small_record import write

from foxflow import flow
from foxflow.comparison import compare
from foxflow.experiments.published import attach, beside_twin, publish, tags
from foxflow.gate import judge
from foxflow.record import open_record
from foxflow.track import open_run, sync
from foxflow.track.names import identify

FLIP = (1, 0, "iqn_q_values")
TOLD = ("foxflow.verdict", "foxflow.twin", "foxflow.first")


def tracked(flip: tuple[int, int | None, str] | None = None) -> tuple[str, flow.Record]:
    """A finished run of this folder's store, with its record among the artifacts."""
    run = open_run(None, {}, {})
    assert run.record_folder is not None
    record = write(run.record_folder, flip=flip)
    run.close(record)
    return run.run_id, record


def artifacts(record: flow.Record) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(record.path).parent.iterdir() if path.is_file()}


def test_a_run_that_departs_from_its_twin_gets_the_explained_report_and_the_twin_stays_as_it_was(place: Path) -> None:
    twin, older = tracked()
    run, newer = tracked(FLIP)
    before = artifacts(older), identify(twin).data.tags
    assert beside_twin(newer, run, twin) is None
    found = artifacts(newer)
    assert found["divergence.png"].startswith(b"\x89PNG")
    tree = parsed(found["report.html"].decode())
    assert tree.all("p", "word")[0].text == "Diverged"
    assert tree.section("roots").all("article")
    assert f"foxflow compare {twin} {run}" in tree.section("repeat").text
    assert (artifacts(older), identify(twin).data.tags) == before
    told = {name: value for name, value in identify(run).data.tags.items() if name in TOLD}
    place_of_it = "step 1, iteration 0, iqn_q_values of group H"
    assert told == {"foxflow.verdict": "DIVERGED", "foxflow.twin": twin, "foxflow.first": place_of_it}


def test_a_pair_that_was_checked_has_one_report_with_the_gate_on_both_sides(place: Path) -> None:
    (run_a, a), (run_b, b) = tracked(), tracked(FLIP)
    comparison = compare(a, b)
    files = publish(comparison, a, b, (run_a, run_b), judge(comparison, a, b))
    assert attach(files, {run_a: tags(comparison, run_b), run_b: tags(comparison, run_a)}) is None
    for run, other in ((run_a, run_b), (run_b, run_a)):
        said = identify(run).data.tags
        assert (said["foxflow.verdict"], said["foxflow.twin"]) == ("DIVERGED", other)
        assert said["foxflow.first"].startswith("step 1, iteration 0")
    assert artifacts(a)["report.html"] == artifacts(b)["report.html"] == files["report.html"]
    assert "Gate: FAIL" in parsed(files["report.html"].decode()).all("header")[0].text


def test_a_twin_without_a_record_costs_the_report_and_nothing_else(place: Path) -> None:
    twin, older = tracked()
    run, newer = tracked(FLIP)
    shutil.rmtree(older.path)
    said = beside_twin(newer, run, twin)
    assert said is not None
    assert said.startswith(f"run {run} has no report.html, for its twin can't be read: ")
    assert open_record(newer.path).complete


def test_a_run_that_the_store_lost_is_named_with_what_to_do(place: Path) -> None:
    said = attach({"report.html": b"x"}, {"0" * 32: {}})
    assert said is not None
    assert said.startswith(f"run {'0' * 32} lacks some of report.html in MLflow: ")
    assert said.endswith("'foxflow sync' sends the rest")


def test_a_store_that_is_away_costs_neither_run_of_a_pair_its_report(place: Path) -> None:
    runs = [tracked()[0], tracked()[0]]
    store = Path("mlruns/mlflow.db")
    whole = store.read_bytes()
    store.write_bytes(b"no database" * 100)
    said = attach(
        {"report.html": b"page", "gate/index.html": b"docs"}, {run: {"foxflow.verdict": "EQUAL"} for run in runs}
    )
    assert said is not None
    assert all(f"run {run} lacks some of gate, report.html in MLflow: " in said for run in runs)
    store.write_bytes(whole)
    assert sorted(one.run_id for one in sync()) == sorted(runs)
    for run in runs:
        folder = Path(identify(run).info.artifact_uri.removeprefix("file://"))
        assert (folder / "report.html").read_bytes() == b"page"
        assert (folder / "gate" / "index.html").read_bytes() == b"docs"
        assert identify(run).data.tags["foxflow.verdict"] == "EQUAL"


def test_the_gate_of_two_tracked_runs_adds_its_data_docs_to_both(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_a, a), (run_b, b) = tracked(), tracked(FLIP)
    assert here(capsys, "gate", run_a, run_b, "--docs", "site", "--json")[0] == 1
    assert Path("site/index.html").is_file()
    for record in (a, b):
        assert (Path(record.path).parent / "gate" / "index.html").is_file()
