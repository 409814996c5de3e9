"""The page: what a reader finds on it for each verdict, and that it is one file, bounded and repeatable."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from record.making import killed, manifest, record, steps
from report.reading import Element, compared, diverged, equal, long, page, parsed
from track.small_record import write

from foxflow import flow, report
from foxflow.explanation import explain
from foxflow.gate import judge

SECTIONS = ["first", "map", "roots", "elements", "environment", "unlike", "evaluation", "gate", "repeat"]


def cells(tree: Element) -> dict[tuple[str, str], tuple[str, str]]:
    """(group, step label) -> (class, words) of the map, by its row and column headers."""
    table = tree.section("map").all("table")[0]
    labels = [th.attributes["title"] for th in table.all("th", "tick")]
    found = {}
    for row in table.all("tbody")[0].all("tr"):
        name = row.all("th")[0].text
        for label, cell in zip(labels, row.all("td"), strict=True):
            found[name, label] = (cell.classes[0], cell.all("span", "said")[0].text)
    return found


def rows(section: Element) -> list[list[str]]:
    return [[c.text for c in row.pieces if isinstance(c, Element)] for row in section.all("tbody")[0].all("tr")]


def test_an_equal_pair_says_so_and_has_nothing_to_explain(tmp_path: Path) -> None:
    tree = page(equal(tmp_path))
    assert tree.all("h1")[0].text == "The same run: 36 buffers over 6 steps are equal to the last bit."
    assert (tree.all("span", "sign")[0].text, tree.all("p", "word")[0].text) == ("=", "Equal")
    assert {kind for kind, _ in cells(tree).values()} == {"e"}
    assert "Nothing to explain" in tree.section("roots").text
    assert "None" in tree.section("elements").text


def test_a_diverged_pair_names_the_first_buffer_and_how_far_it_lies_apart(tmp_path: Path) -> None:
    tree = page(diverged(tmp_path))
    said = "Not the same run: they part at step 2, in q_logits of group H. 1 of 36 buffers differs."
    assert tree.all("h1")[0].text == said
    assert (tree.all("span", "sign")[0].text, tree.all("p", "word")[0].text) == ("≠", "Diverged")
    facts = tree.section("first").all("dl")[0]
    told = dict(zip([e.text for e in facts.all("dt")], [e.text for e in facts.all("dd")], strict=True))
    assert told["Where"] == "step 2, iteration 1"
    assert (told["Buffer"], told["Type"], told["Elements"]) == ("q_logits", "f32 [3, 4]", "1 of 12 differ")
    assert (told["ULP"], told["First index"]) == ("1", "[1, 2]")
    (row,) = rows(tree.section("elements"))
    assert row[:5] == ["q_logits (k 1)", "H", "DIVERGE", "f32 [3, 4]", "1 of 12"]
    assert rows(tree.section("environment")) == [["environment.threads", "1", "4"]]


def test_the_map_shows_the_diverged_cell_alone_and_links_to_its_buffers(tmp_path: Path) -> None:
    tree = page(diverged(tmp_path))
    found = cells(tree)
    assert set(found) == {(group, f"step {step}") for group in "WDGH" for step in range(6)}
    assert [at for at, (kind, _) in found.items() if kind != "e"] == [("H", "step 2")]
    assert found["H", "step 2"] == ("d", "differs, the first")
    (link,) = tree.section("map").all("a")
    assert tree.by_id(link.attributes["href"].removeprefix("#")).tag == "details"


def test_records_of_two_seeds_are_not_comparable_and_what_is_unlike_is_listed(tmp_path: Path) -> None:
    tree = page(compared(record(tmp_path / "a"), record(tmp_path / "b", seed=43)))
    assert tree.all("h1")[0].text == "Not comparable: unlike seed (42, 43)."
    assert tree.all("p", "word")[0].text == "Not comparable"
    assert rows(tree.section("unlike")) == [["seed", "42", "43"]]


def test_a_killed_run_is_incomplete_and_its_missing_steps_are_on_the_map(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", steps(dump=frozenset({1})))
    tree = page(compared(whole, killed(tmp_path / "b")))
    assert tree.all("h1")[0].text.startswith("Nothing that was compared differs, but the records are incomplete: ")
    assert tree.all("p", "word")[0].text == "Incomplete"
    found = cells(tree)
    assert {found[group, "step 5"] for group in "WDGH"} == {("m", "missing on a side")}
    assert {found[group, "step 0"][0] for group in "WDGH"} == {"e"}


def test_roots_stand_with_rule_and_evidence(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    explanation = explain(*pair[1:])
    (root,) = explanation.roots
    said = page(pair, explanation=explanation).section("roots").text
    for words in (root.sentence, root.cause, root.rule, *root.evidence):
        assert words in said


def proof(found: flow.Comparison, **changes: object) -> flow.Proof:
    assert found.first is not None
    root = flow.Root(
        where=found.first, cause="race", confidence="likely", producer="head_fwd", rule="inputs equal, output differs",
        sentence="head_fwd made other bits of equal inputs.", evidence=("w_q is EQUAL",), wakes_at=4,
    )  # fmt: skip
    tried = flow.Experiment(
        name="replay", repeats=20, outcome="3 of 20 differ", meaning="The kernel alone brings it back.",
        reproduced=True, command="foxflow prove a 'b c'",
    )  # fmt: skip
    explanation = flow.Explanation(comparison=found, roots=(root,), case="case (iii)", ask=("record group G",))
    whole = flow.Proof(explanation=explanation, accused=root, proven=True, experiments=(tried,), folder="kept/here")
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]


def test_experiments_stand_below_the_accused_root_with_the_command_that_repeats_them(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    (card,) = page(pair, proof=proof(pair[0])).section("roots").all("article")
    for words in (
        "race, likely; proven ✓",
        "step 4, where",
        "done 20 times: the difference came back",
        "3 of 20 differ",
    ):
        assert words in card.text
    assert [code.text for code in card.all("code")] == ["foxflow prove a 'b c'"]
    unproven = page(pair, proof=proof(pair[0], proven=False)).section("roots")
    assert "race, likely; not proven" in unproven.text


def test_an_accused_that_is_no_root_stands_first_and_alone_has_the_experiments(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    told = proof(pair[0])
    assert told.accused is not None
    other = dataclasses.replace(told.accused, producer="encoder", sentence="Accused by the caller.")
    first, second = page(pair, proof=dataclasses.replace(told, accused=other)).section("roots").all("article")
    assert "Accused by the caller." in first.text
    assert "done 20 times" in first.text
    assert "done 20 times" not in second.text


def test_the_gate_stands_with_each_suite_and_what_failed(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    verdict = judge(*pair)
    tree = page(pair, verdict=verdict)
    assert "Gate: FAIL ✗" in tree.all("header")[0].text
    section = tree.section("gate")
    assert [row[:2] for row in rows(section)] == [[s.name, str(s.evaluated)] for s in verdict.suites]
    assert all(fault[:400] in section.text for suite in verdict.suites for fault in suite.failed)
    good = compared(write(tmp_path / "c"), write(tmp_path / "d"))
    assert "Gate: PASS ✓" in page(good, verdict=judge(*good)).all("header")[0].text


def test_evaluations_stand_side_by_side_and_what_differs_is_marked(tmp_path: Path) -> None:
    from foxflow.record import Writer

    records = []
    for name, content in (("a", b'{"pnl": 0.0, "n": 4, "by": {"es": [1, 2]}}'), ("b", b'{"pnl": -0.0, "n": 4}')):
        writer = Writer(tmp_path / name, manifest=manifest())
        for step in steps():
            writer.write(step)
        records.append(writer.close({"eval_summary.json": content}))
    section = page(compared(*records)).section("evaluation")
    assert rows(section) == [
        ["pnl", "0.0", "-0.0", "≠ differs"],
        ["n", "4", "4", "= equal"],
        ["by.es[0]", "1", "absent", "≠ differs"],
        ["by.es[1]", "2", "absent", "≠ differs"],
    ]
    assert ["differs" in row.classes for row in section.all("tbody")[0].all("tr")] == [True, False, True, True]
    assert "eval_summary.json differs" in section.text


def test_the_commands_that_repeat_both_runs_and_the_answer_are_quoted_for_a_shell(tmp_path: Path) -> None:
    a = record(tmp_path / "a", command=["run", "--seed", "42", "--data", "my file.dbn"])
    tree = page(compared(a, record(tmp_path / "b")), names=("ab12", "my run"))
    assert [code.text for code in tree.section("repeat").all("code")] == [
        "foxflow run --seed 42 --data 'my file.dbn'",
        "foxflow compare ab12 'my run'",
        "foxflow explain ab12 'my run'",
    ]
    assert "Its record holds no command." in tree.section("repeat").text


def test_the_sections_stand_in_order_and_the_page_links_to_each(tmp_path: Path) -> None:
    tree = page(diverged(tmp_path))
    assert [h.attributes["id"] for h in tree.all("h2")] == SECTIONS
    assert [a.attributes["href"] for a in tree.all("nav")[0].all("a")] == [f"#{name}" for name in SECTIONS]


def test_the_page_is_self_contained_and_every_link_has_its_place(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    html = report.page(*pair, report.Findings(proof=proof(pair[0]), verdict=judge(*pair)))
    tree = parsed(html)
    assert {e.tag for e in tree} & {"script", "link", "img", "iframe", "object", "form", "base"} == set()
    addresses = [
        e.attributes[name] for e in tree for name in ("href", "src", "srcset", "action") if name in e.attributes
    ]
    ids = [e.attributes["id"] for e in tree if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    assert set(addresses) <= {f"#{name}" for name in ids}
    assert not re.search(r"url\(|@import|https?:", tree.all("style")[0].text)
    (policy,) = [e for e in tree.all("meta") if "http-equiv" in e.attributes]
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_tables_have_headers_with_scope_and_scrolling_parts_can_be_focused(tmp_path: Path) -> None:
    tree = page(diverged(tmp_path))
    headers = [th for th in tree.all("th") if th.text]
    assert headers
    assert all(th.attributes.get("scope") in ("row", "col", "colgroup") for th in headers)
    scrolling = tree.all("div", "scroll")
    assert len(scrolling) >= 3
    assert all(e.attributes["tabindex"] == "0" and e.attributes["aria-label"] for e in scrolling)
    assert tree.all("html")[0].attributes["lang"] == "en"


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    findings = report.Findings(proof=proof(pair[0]), verdict=judge(*pair))
    assert report.page(*pair, findings) == report.page(*pair, findings)


@pytest.mark.parametrize("count", [800, 2000, 8000])
def test_the_size_is_bounded_whatever_the_length_of_the_runs(tmp_path: Path, count: int) -> None:
    a = record(tmp_path / "a")
    html = report.page(long(count), a, a)
    assert len(html.encode()) < 400_000
    assert len(parsed(html).section("map").all("th", "tick")) <= 60
