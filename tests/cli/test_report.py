"""`foxflow report`: one file, the path on stdout, the exit codes of compare."""

from __future__ import annotations

import json
from pathlib import Path

from cli.commanding import Command
from record.making import record
from report.reading import diverged, equal, parsed


def test_report_writes_the_page_and_prints_its_path(command: Command, tmp_path: Path) -> None:
    diverged(tmp_path)
    code, out, _ = command("report", "a", "b")
    assert (code, out) == (1, "report.html\n")
    tree = parsed(Path("report.html").read_text(encoding="utf-8"))
    assert tree.all("p", "word")[0].text == "Diverged"
    assert tree.section("roots").all("article"), "explained"
    assert "Gate: FAIL" in tree.all("header")[0].text, "judged"
    assert [code.text for code in tree.section("repeat").all("code")] == ["foxflow compare a b", "foxflow explain a b"]


def test_report_says_in_json_where_the_page_is_and_what_it_says(command: Command, tmp_path: Path) -> None:
    equal(tmp_path)
    code, out, _ = command("report", "a", "b", "--out", "deep/er/page.html", "--json")
    assert (code, json.loads(out)) == (0, {"report": "deep/er/page.html", "verdict": "EQUAL"})
    assert Path("deep/er/page.html").is_file()


def test_report_takes_allow_and_has_the_exit_codes_of_compare(command: Command, tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", seed=43)
    assert command("report", "a", "b")[0] == 3
    assert command("report", "a", "b", "--allow", "seed")[0] == 0


def test_a_page_that_can_t_be_written_and_a_proof_that_is_none_are_mistakes(command: Command, tmp_path: Path) -> None:
    equal(tmp_path)
    code, out, err = command("report", "a", "b", "--out", "a")
    assert (code, out) == (2, "")
    assert "--out must name a file that can be written" in err
    code, _, err = command("report", "a", "b", "--proof", "nowhere")
    assert code == 2
    assert "--proof must be a folder with a proof.json" in err
