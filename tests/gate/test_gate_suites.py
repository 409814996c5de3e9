"""Suites that a hand has edited: none of them may pass by accident."""

import json
import shutil

import pytest

from foxflow.gate.checkpoint import Checkpoints
from foxflow.gate.frames import PAIR, Frame
from foxflow.gate.suites import check, folder

PAIRS = {"column_A": "digest_a", "column_B": "digest_b", "ignore_row_if": "neither"}
EQUAL = {"type": "expect_column_pair_values_to_be_equal", "kwargs": PAIRS}


def frame(*pairs, expected=None):
    import pandas as pd

    rows = [("H", "train", i, -1, 0, f"b{i}", a, b) for i, (a, b) in enumerate(pairs)]
    seen = len(pairs) if expected is None else expected
    data = pd.DataFrame(rows, columns=list(PAIR))
    return Frame(name="f", suite="comparison", data=data, rows=seen, parameters={"pairs": seen})


@pytest.fixture
def suites(tmp_path):
    """A copy of the suites and a way to edit the one of comparisons."""
    copy = tmp_path / "suites"
    shutil.copytree(folder(), copy)

    def edit(change):
        path = copy / "comparison.json"
        text = json.loads(path.read_text())
        change(text)
        path.write_text(json.dumps(text))
        return copy

    return edit


def ran(suites_folder, data=None):
    return check(data or frame(("x", "x"), ("y", "y")), suites_folder, Checkpoints())


def only(*expectations):
    return lambda text: text.update(expectations=list(expectations), meta={"foxflow": {"checks": len(expectations)}})


def test_the_suite_as_it_is_passes_equal_pairs_and_no_others(suites):
    where = suites(lambda text: None)
    assert ran(where) == (7, [])
    for data in (frame(("x", "y")), frame(("x", None)), frame((None, "x")), frame((None, None)), frame(("", ""))):
        assert ran(where, data)[1]


@pytest.mark.parametrize("pairs", [(("x", "x"), (None, None)), (("x", "x"), (float("nan"), float("nan")))])
def test_a_pair_that_both_sides_lack_is_not_ignored(suites, pairs):
    said = ran(suites(only(EQUAL)), frame(*pairs))[1]
    assert "fails for 1 of 2 rows" in said[0]


def test_an_equality_that_was_edited_to_ignore_nulls_skips_and_says_so_by_the_others(suites):
    def loosen(text):
        for one in text["expectations"]:
            one["kwargs"].pop("ignore_row_if", None)

    assert any("not_be_null" in fault for fault in ran(suites(loosen), frame(("x", "x"), (None, None)))[1])


@pytest.mark.parametrize("expected", [0, 2])
def test_fewer_or_more_pairs_than_must_be_seen_fail_by_the_suite_and_without_it(suites, expected):
    said = ran(suites(lambda text: None), frame(("x", "x"), expected=expected))[1]
    assert "row_count" in said[0]
    said = ran(suites(only(EQUAL)), frame(("x", "x"), expected=expected))[1]
    assert said == [f"f: the frame has 1 rows, must have {expected}"]


def test_an_expectation_that_was_taken_out_fails(suites):
    said = ran(suites(lambda text: text["expectations"].pop()))[1]
    assert said == ["the suite comparison.json must have 7 checks (meta.foxflow.checks), has 6"]


def test_an_expectation_that_a_user_added_is_evaluated(suites):
    added = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "group", "value_set": ["H"]}}
    assert ran(suites(lambda text: text["expectations"].append(added))) == (8, [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.update(expectations=[]), "has no checks"),
        (lambda text: text.update(expectations={}), "has no checks"),
        (lambda text: text.pop("expectations"), "can't be read: KeyError"),
        (lambda text: text.pop("meta"), "can't be read: KeyError"),
        (lambda text: text["expectations"][0].pop("type"), "can't be run"),
        (lambda text: text["expectations"][0]["kwargs"].update(oddity=1), "can't be run"),
        (lambda text: text["expectations"][1]["kwargs"].update(value={"$PARAMETER": "nothing"}), "can't be run"),
        (lambda text: text["expectations"][2]["kwargs"].update(column="nowhere"), "could not be computed"),
    ],
)
def test_a_suite_that_says_nothing_or_nonsense_fails(suites, change, words):
    said = ran(suites(change))[1]
    assert len(said) == 1
    assert words in said[0]


def test_a_suite_that_is_missing_or_no_json_fails(suites, tmp_path):
    where = suites(lambda text: None)
    (where / "comparison.json").write_text("[1]")
    assert "can't be read: TypeError" in ran(where)[1][0]
    (where / "comparison.json").write_text("{")
    assert "can't be read: JSONDecodeError" in ran(where)[1][0]
    (where / "comparison.json").unlink()
    assert ran(where) == (0, ["the suite comparison.json is missing"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_condition_that_no_row_meets_fails(suites):
    never = {**EQUAL, "kwargs": {**EQUAL["kwargs"], "row_condition": 'group == "Q"', "condition_parser": "pandas"}}
    said = ran(suites(only(never)), frame(("x", "y")))[1]
    assert len(said) == 1
    assert said[0].endswith("looked at no row")
