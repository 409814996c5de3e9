"""What a person reads of two runs in MLflow's own pages, in a real browser on a real server."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image

pytestmark = pytest.mark.browser

WHERE = "step 0, outcome_w of group K"
SENTENCE = re.compile(
    r"Not the same run: they part at step 0, in outcome_w of group K\. [\d,]+ of [\d,]+ buffers differ\."
)


def test_the_runs_list_says_of_each_run_whether_it_was_the_same_and_where_it_departs(served, look, keep):
    seen = look()
    seen.open(served.page(), "4 matching runs")
    seen.columns("Dataset", "Source", "Models", "foxflow.verdict", "foxflow.first", "foxflow.fingerprint")
    seen.page.get_by_text(WHERE).first.wait_for()
    rows = seen.listed()
    first, twin, a, b = (rows[run] for run in (*served.same, *served.differ))
    prints = [re.findall(r"fx1:[0-9a-f]{32}", " ".join(row)) for row in (first, twin, a, b)]
    assert all(len(found) == 1 for found in prints)
    assert (prints[0] == prints[1], prints[2] == prints[3]) == (True, False)
    assert ("first" in first, "EQUAL" in twin) == (True, True)
    assert all("DIVERGED" in row and WHERE in row for row in (a, b))
    assert not any(WHERE in row for row in (first, twin))
    keep(seen, "runs-list.png")


def test_the_compare_page_of_two_diverged_runs_marks_what_differs_and_names_the_first_divergence(served, look, keep):
    seen, (a, b) = look(), served.differ
    seen.open(served.page(a, b), "Comparing 2 Runs")
    assert seen.row("seed") == (["43", "43"], False)
    assert seen.row("steps") == (["6", "6"], False)
    seen.click("Visualizations", "Run details", "Parameters")
    assert seen.metric("eval/summary/n_trades") == ["0", "0"]
    seen.only_differing("Metrics")
    seen.page.get_by_text("env/n_done", exact=True).wait_for(state="hidden")
    assert len(seen.metric("grad_norm/dueling")) == 2, "it differs, though perhaps in no digit that is shown"
    seen.click("Metrics", "Artifacts")
    prints, marked = seen.row("foxflow.fingerprint")
    assert (len(set(prints)), marked) == (2, True)
    assert seen.row("foxflow.verdict") == (["DIVERGED", "DIVERGED"], False)
    assert seen.row("foxflow.first") == ([WHERE, WHERE], False)
    assert seen.row("foxflow.twin") == ([b, a], True)
    assert seen.row("foxflow.identity")[1] is False
    keep(seen, "compare-tags.png")
    seen.only_differing("Tags")
    left = {line.split("\t")[0] for line in seen.page.inner_text("body").split("\n") if line.startswith("foxflow.")}
    assert left == {"foxflow.fingerprint", "foxflow.twin", "foxflow.manifest", "foxflow.process"}


def test_the_compare_page_of_a_run_and_its_twin_leaves_the_fingerprint_unmarked(served, look):
    seen, (first, _) = look(), served.same
    seen.open(served.page(*served.same), "Comparing 2 Runs")
    prints, marked = seen.row("foxflow.fingerprint")
    assert (len(set(prints)), marked) == (1, False)
    assert seen.row("foxflow.verdict") == (["first", "EQUAL"], True)
    assert seen.row("foxflow.twin") == (["", first], True)
    assert "foxflow.first" not in seen.page.inner_text("body")
    assert seen.row("foxflow.clean") == (["true", "true"], False)


def test_the_pictures_of_the_divergence_stand_side_by_side_and_show_its_colour(served, look, keep):
    seen = look(viewport={"width": 1760, "height": 900})  # narrower, a wide font leaves the list of files no room
    seen.open(served.page(*served.differ), "Comparing 2 Runs")
    seen.click("Visualizations", "Run details", "Parameters", "Metrics")
    seen.page.get_by_text("divergence.png", exact=True).click()
    pictures = seen.page.get_by_alt_text("divergence.png")
    pictures.nth(1).wait_for()
    seen.page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth === 1200)")
    boxes = [picture.bounding_box() for picture in pictures.all()]
    assert len(boxes) == 2
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"], "side by side"
    for picture in pictures.all():
        shown = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
        assert sum(many for many, colour in shown.getcolors(1 << 20) if colour == (0xB9, 0x3A, 0x0E)) > 1000
    keep(seen, "compare-pictures.png")


def test_the_checksum_tables_stand_side_by_side_row_by_row(served, look, keep):
    seen = look()
    seen.open(
        f"{served.page()}&compareRunsMode=ARTIFACT&searchFilter=tags.foxflow.clean%3D%27false%27",
        "step 0, X, tape_book",
    )
    seen.page.get_by_placeholder("Filter by where").fill("0, K, outcome_")
    seen.page.get_by_text("step 0, K, outcome_b", exact=True).wait_for()
    lines = seen.page.inner_text("body").split("\n")
    table = {line: lines[at + 1 : at + 3] for at, line in enumerate(lines) if line.startswith("step 0, K")}
    assert set(table) == {f"step 0, K, outcome_{one}" for one in ("w", "b", "labels")}
    assert all(re.fullmatch("fx1:[0-9a-f]{16}", digest) for pair in table.values() for digest in pair)
    assert len(set(table["step 0, K, outcome_w"])) == 2
    assert len(set(table["step 0, K, outcome_b"])) == 1
    keep(seen, "checksum-tables.png")


def test_the_report_is_read_in_the_artifact_viewer(served, look, keep):
    seen = look()
    run, query = served.page(served.differ[1]).split("?")
    seen.open(f"{run}/artifacts/report.html?{query}", "report.html")
    report = seen.page.frame_locator("iframe")
    heading = report.get_by_role("heading", level=1)
    heading.wait_for()
    assert SENTENCE.fullmatch(" ".join(heading.inner_text().split()))
    assert report.get_by_text("Gate: FAIL").is_visible()
    keep(seen, "report-in-mlflow.png")
    cause = report.get_by_text("unseeded-init").first
    cause.scroll_into_view_if_needed()
    assert 0 < cause.bounding_box()["y"] < seen.page.viewport_size["height"]
    keep(seen, "report-cause.png")


def test_a_runs_page_shows_its_data_curves_and_the_machine(served, look):
    seen = look()
    seen.open(served.page(served.same[1]), "About this run")
    seen.page.get_by_text("synthetic(42)").first.wait_for()
    seen.open(served.page(served.same[1]).replace("?", "/system-metrics?"), "cpu_utilization_percentage")
    assert seen.page.get_by_text("process_memory_usage_megabytes", exact=True).is_visible()
    seen.open(served.page(served.same[1]).replace("?", "/model-metrics?"), "mean_reward_raw")
    sections = re.findall(r"\n([a-z_/]+)\n\(\d+\)", seen.page.inner_text("body"))
    assert sections == ["env", "eval/env", "eval/summary", "grad_norm", "isv", "loss", "per"]
