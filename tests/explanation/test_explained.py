"""An explanation as JSON and text, on the command line, and where there is little or nothing to explain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli.commanding import here
from comparison.doctoring import DUMP, flip, flipped_dump, pair
from explanation.conftest import Explained
from explanation.making import at, edited, written
from record import making
from record.making import rewrite

import foxflow
from foxflow import flow
from foxflow.comparison import as_json as comparison_json
from foxflow.errors import Mistake, NoRecord
from foxflow.explanation import as_json, as_text

ROOT_KEYS = [
    *("step", "k", "group", "buffer", "cause", "confidence", "producer", "rule", "sentence", "evidence"),
    *("wakes_at", "also", "repeats"),
]
TOP = ("cause", "producer", "rule", "sentence", "evidence")


def test_json_has_the_keys_of_the_contract(clean: list[flow.Step], doctored: Explained) -> None:
    explained = doctored(clean, at((3, "q_logits", 1), (5, "loss_total", None)))
    found = json.loads(json.dumps(as_json(explained), allow_nan=False))
    compared = comparison_json(explained.comparison)
    assert {key: found[key] for key in compared} == compared
    assert list(found) == [*compared, "roots", *TOP, "case", "ask"]
    assert [list(root) for root in found["roots"]] == [ROOT_KEYS, ROOT_KEYS]
    assert {name: found[name] for name in TOP} == {name: found["roots"][0][name] for name in TOP}
    assert (found["roots"][0]["step"], found["roots"][0]["k"], found["roots"][0]["buffer"]) == (3, 1, "q_logits")


def test_json_of_a_clean_pair_has_nulls_and_a_sentence(clean: list[flow.Step], doctored: Explained) -> None:
    found = as_json(doctored(clean))
    assert found["roots"] == []
    assert [found[name] for name in ("cause", "producer", "rule", "evidence", "case")] == [None] * 5
    assert found["sentence"].startswith("No divergence: ")


def test_a_root_in_evaluation_has_its_phase_beside_its_step(clean: list[flow.Step], doctored: Explained) -> None:
    (root,) = as_json(doctored(clean, at((13, "action", None), phase=flow.EVAL)))["roots"]
    assert (root["step"], root["phase"]) == (13, "eval")


def test_text_tells_verdict_roots_evidence_case_and_what_to_record(clean: list[flow.Step], doctored: Explained) -> None:
    lines = as_text(doctored(clean, at((3, "q_logits", 1)))).splitlines()
    assert lines[0] == "DIVERGED: 5003 compared, 1 differing, 0 missing"
    assert lines[1].startswith("root 1  q_logits (group H) differs at step 3, k 1 though all ")
    assert lines[2] == "  cause  race (likely)"
    assert lines[-2].startswith("case  (2) H with G EQUAL: head forward, at step 3")
    assert lines[-1].startswith("ask   how far is q_logits apart")


def test_many_roots_are_counted_on_a_terminal(clean: list[flow.Step], doctored: Explained) -> None:
    names = {b.buffer for b in clean[4].buffers if b.buffer.startswith("adam_m.")}
    explained = doctored(clean, at(*((4, name, None) for name in names)))
    assert len(explained.roots) == len(names)
    assert f"… and {len(names) - 12} more roots" in as_text(explained)


def test_without_a_dataflow_the_first_difference_in_recorded_order_is_all_there_is(tmp_path: Path) -> None:
    making.record(tmp_path / "a", making.steps(dump=DUMP), dataflow=[])
    making.record(tmp_path / "b", making.steps(dump=DUMP, edit=flip), dataflow=[])
    explained = foxflow.explain(tmp_path / "a", tmp_path / "b")
    (found,) = explained.roots
    assert (found.where.buffer, found.where.step, found.confidence, found.producer) == ("q_logits", 2, "open", "")
    assert "no dataflow was recorded" in found.rule
    assert (explained.case, len(explained.ask)) == (None, 1)
    assert as_json(explained)["producer"] is None


@pytest.mark.parametrize("declared", [None, {}, [["q_logits", "head_fwd", ["w_q"]]], [{"buffer": "q_logits"}]])
def test_a_dataflow_of_another_form_is_none(tmp_path: Path, declared: object) -> None:
    making.record(tmp_path / "a", dataflow=declared)
    making.record(tmp_path / "b", making.steps(edit=flip), dataflow=declared)
    (found,) = foxflow.explain(tmp_path / "a", tmp_path / "b").roots
    assert found.confidence == "open"


def test_a_buffer_that_the_dataflow_does_not_hold_is_open(clean: list[flow.Step], doctored: Explained) -> None:
    def renamed(step: flow.Step) -> flow.Step:
        names = {"loss_total": "loss_all"}
        return replace(step, buffers=tuple(replace(b, buffer=names.get(b.buffer, b.buffer)) for b in step.buffers))

    (found,) = doctored([renamed(step) for step in clean], at((3, "loss_all", None))).roots
    assert (found.where.buffer, found.confidence, found.producer) == ("loss_all", "open", "")


def test_a_record_that_contradicts_itself_is_not_explained(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    rewrite(b / "buffers" / "step-000002.parquet", flipped_dump)
    explained = foxflow.explain(a, b)
    assert (explained.comparison.verdict, explained.roots) == (flow.NOT_COMPARABLE, ())
    assert explained.sentence == f"Nothing to explain: corrupt: {b}: w_q."


def test_a_run_that_ended_early_is_not_explained(clean: list[flow.Step], tmp_path: Path) -> None:
    written(tmp_path / "a", clean)
    written(tmp_path / "b", clean[:5])
    explained = foxflow.explain(tmp_path / "a", tmp_path / "b")
    assert (explained.comparison.verdict, explained.roots) == (flow.INCOMPLETE, ())
    assert "have no partner" in explained.sentence


def test_a_run_that_ended_early_is_explained_up_to_its_end(clean: list[flow.Step], tmp_path: Path) -> None:
    written(tmp_path / "a", clean)
    written(tmp_path / "b", edited(clean[:5], at((4, "q_logits", 0))))
    for sides in (("a", "b"), ("b", "a")):
        (found,) = foxflow.explain(*(tmp_path / side for side in sides)).roots
        assert (found.where.step, found.producer, found.confidence) == (4, "head_fwd", "likely")


def test_a_summary_that_differs_alone_is_said_and_asked_for(clean: list[flow.Step], tmp_path: Path) -> None:
    for side, line in (("a", '{"step": 0, "x": 1}'), ("b", '{"step": 0, "x": 2}')):
        written(tmp_path / side, [replace(clean[0], diag=line)])
    explained = foxflow.explain(tmp_path / "a", tmp_path / "b")
    assert explained.comparison.verdict == flow.DIVERGED
    assert explained.sentence == "No recorded buffer differs, yet the runs do: unequal diag.jsonl."
    assert len(explained.ask) == 1


def test_a_mistake_is_one_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(NoRecord):
        foxflow.explain(tmp_path, tmp_path)
    with pytest.raises(Mistake, match="allow must name seed, config"):
        foxflow.explain(tmp_path, tmp_path, allow=("bits",))


@pytest.mark.parametrize(
    ("declared", "words", "code"),
    [({}, (), 1), ({"seed": 43}, (), 3), ({"seed": 43}, ("--allow", "seed"), 1), (None, (), 0)],
)
def test_the_exit_code_is_that_of_compare(
    clean: list[flow.Step],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    declared: dict[str, object] | None,
    words: tuple[str, ...],
    code: int,
) -> None:
    written(tmp_path / "a", clean)
    if declared is None:
        written(tmp_path / "b", clean)
    else:
        written(tmp_path / "b", edited(clean, at((3, "q_logits", 1))), **declared)
    pair = (str(tmp_path / "a"), str(tmp_path / "b"))
    assert here(capsys, "explain", *pair, *words)[0] == code == here(capsys, "compare", *pair, *words)[0]
    said = here(capsys, "explain", *pair, *words, "--json")
    assert (said[0], said[2]) == (code, "")
    assert len(json.loads(said[1])["roots"]) == (0 if declared is None else 1)


def test_memory_of_layouts_does_not_grow_with_the_steps(clean: list[flow.Step], tmp_path: Path) -> None:
    """Steps that captured the same buffers share one layout."""
    from foxflow.explanation.layout import layouts

    found = layouts(written(tmp_path / "a", clean))
    assert len(found) == len(clean)
    assert len({id(layout) for _, layout in found}) == 4
