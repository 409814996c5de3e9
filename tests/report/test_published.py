"""report.html and divergence.png among the artifacts of tracked runs, where MLflow shows them."""

from __future__ import annotations

import shutil
from pathlib import Path

from report.reading import parsed
from track.small_record import write

from foxflow import flow
from foxflow.comparison import compare
from foxflow.experiments.published import attach, beside_twin, publish, tags
from foxflow.gate import judge
from foxflow.record import open_record
from foxflow.track import open_run
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


def test_a_run_that_equals_its_twin_gets_a_report_that_says_so(place: Path) -> None:
    twin, _ = tracked()
    run, newer = tracked()
    assert beside_twin(newer, run, twin) is None
    assert parsed(artifacts(newer)["report.html"].decode()).all("p", "word")[0].text == "Equal"


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
    assert said.startswith(f"run {'0' * 32} lacks its report.html or tags in MLflow: ")
    assert said.endswith("'foxflow report' writes the page")
