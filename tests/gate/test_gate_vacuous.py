"""Each way in which Great Expectations passes on nothing: by itself it says success, and the gate says no.

The suites are a user's own, so that the gate's guards hold without foxflow's.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd  # noqa: TID253 (this file is about frames)
import pytest
from gate.alone import context, gate_says, of_frame, success, suite
from gate.pairs import faults, seen_through, without
from track.small_record import ROWS, write

from foxflow.comparison import compare
from foxflow.gate import judge

LETTERS = {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "x", "regex": "^[a-z]$"}}
SAME = {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "a", "column_B": "b"}}
BIT_EQUAL = {"type": "expect_buffers_to_be_bit_equal", "kwargs": {"column_A": "a", "column_B": "b"}}
GOOD = pd.DataFrame({"x": ["a", "b"], "a": ["x", "y"], "b": ["x", "y"]})


def test_the_gate_passes_what_is_well(tmp_path):
    distinct = {
        "type": "expect_column_distinct_values_to_be_in_set",
        "kwargs": {"column": "x", "value_set": ["a", "b"]},
    }
    assert gate_says(tmp_path, GOOD, LETTERS, SAME, BIT_EQUAL, distinct) == []
    there = [{"type": f"expect_column_{what}", "kwargs": {"column": "x"}} for what in ("to_exist", "values_to_be_null")]
    assert gate_says(tmp_path, pd.DataFrame({"x": [None, None]}), *there) == []


def test_a_suite_without_expectations(tmp_path):
    assert success(of_frame(GOOD))
    assert gate_says(tmp_path, GOOD) == ["the suite own.json has no checks"]


def test_an_unknown_expectation_that_is_dropped(tmp_path):
    unknown = {"type": "expect_the_unexpected", "kwargs": {}}
    assert success(of_frame(GOOD), LETTERS, unknown)
    assert gate_says(tmp_path, GOOD, LETTERS, unknown) == ["own: 1 of 2 expectations are unknown and were dropped"]


def test_an_empty_frame(tmp_path):
    assert success(of_frame(GOOD[:0]), LETTERS, SAME)
    assert gate_says(tmp_path, GOOD[:0], LETTERS, SAME) == ["own: the frame is empty, nothing was checked"]


@pytest.mark.parametrize("nothing", [None, float("nan")])
@pytest.mark.parametrize(
    "asked",
    [
        LETTERS,
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "x", "min_value": 5}},
        {"type": "expect_column_distinct_values_to_be_in_set", "kwargs": {"column": "x", "value_set": ["a"]}},
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["x", "y"]}},
    ],
    ids=lambda asked: asked["type"],
)
def test_a_column_of_nan_or_none(tmp_path, asked, nothing):
    data = pd.DataFrame({"x": [nothing] * 2, "y": [nothing] * 2})
    assert success(of_frame(data), asked)
    (said,) = gate_says(tmp_path, data, asked)
    assert said.endswith("skipped 2 rows with nulls") or said.endswith("does not say what it looked at")


def test_pairs_missing_on_both_sides(tmp_path):
    data = pd.DataFrame({"a": ["x", None], "b": ["x", None]})
    assert success(of_frame(data), SAME)
    (said,) = gate_says(tmp_path, data, SAME)
    assert said.endswith("skipped 1 rows with nulls")
    strict = {**SAME, "kwargs": {**SAME["kwargs"], "ignore_row_if": "neither"}}
    assert not success(of_frame(data), strict)


@pytest.mark.filterwarnings("ignore:String values for numeric batch parameters")
def test_only_the_last_file_of_many_is_checked(tmp_path):
    """There, a definition of monthly batches with a bad file in January; here, a bad dump in the first step of two."""
    import great_expectations as gx

    for month, value in ((1, "BAD"), (2, "b"), (3, "c")):
        (tmp_path / f"x_2024-0{month}.csv").write_text(f"x\n{value}\n")
    made = context()
    asset = made.data_sources.add_pandas_filesystem("many", base_directory=tmp_path).add_csv_asset("x")
    monthly = asset.add_batch_definition_monthly("monthly", regex=r"x_(?P<year>\d{4})-(?P<month>\d{2})\.csv")
    letters = made.suites.add(gx.ExpectationSuite(name="letters", expectations=[LETTERS]))
    checks = made.validation_definitions.add(gx.ValidationDefinition(name="many", data=monthly, suite=letters))
    assert made.checkpoints.add(gx.Checkpoint(name="many", validation_definitions=[checks])).run().success
    assert not success(monthly.get_batch({"year": 2024, "month": 1}), LETTERS)

    a, b = write(tmp_path / "a"), write(tmp_path / "b", flip=(0, 1, "iqn_q_values"))
    said = faults(judge(compare(a, b), a, b), "buffers")
    assert "dump train 0: expect_buffers_to_be_bit_equal" in said
    assert "dump train 1" not in said


def test_minus_zero_for_zero(tmp_path):
    data = pd.DataFrame({"a": [1.0, 0.0], "b": [1.0, -0.0]})
    assert success(of_frame(data), SAME)
    (said,) = gate_says(tmp_path, data, BIT_EQUAL)
    assert "fails for 1 of 2 rows" in said
    assert "0.0 (0x0000000000000000) in A, -0.0 (0x8000000000000000) in B" in said


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("SELECT 0.0::DOUBLE AS x", "SELECT -0.0::DOUBLE AS x"),
        ("SELECT 1 AS x WHERE false", "SELECT 2 AS x WHERE false"),
        ("SELECT range AS x FROM range(300)", "SELECT range AS x FROM range(400)"),
        ("SELECT range AS x FROM range(201)", "SELECT range + range // 200 AS x FROM range(201)"),
        ("SELECT 1 AS x", "SELECT true AS x"),
        ("SELECT 1 AS x", "SELECT 1 AS y"),
        ("SELECT make_timestamp_ns(1) AS x", "SELECT make_timestamp_ns(2) AS x"),
    ],
    ids=["minus zero", "no row", "more rows", "row 201", "1 and true", "names", "a nanosecond"],
)
def test_a_query_comparison_on_duckdb(tmp_path, a, b):
    """Two tables that differ match in Great Expectations; the gate looks at frames alone and refuses queries."""
    url = f"duckdb:///{tmp_path / 'two.db'}"
    with duckdb.connect(str(tmp_path / "two.db")) as db:
        db.execute(f"CREATE TABLE a AS {a}; CREATE TABLE b AS {b}")
    source = context().data_sources.add_sql("two", connection_string=url)
    batch = source.add_table_asset("a", table_name="a").add_batch_definition_whole_table("whole").get_batch()
    sides = {
        "base_query": "SELECT * FROM a",
        "comparison_query": "SELECT * FROM b",
        "comparison_data_source_name": "two",
    }
    query = {"type": "expect_query_results_to_match_comparison", "kwargs": sides}
    assert success(batch, query)
    (said,) = gate_says(tmp_path / "suites", pd.DataFrame({"x": [0.0]}), query)
    assert said.endswith("could not be computed")


def test_a_row_count_asked_of_one_side_only(tmp_path):
    """The user's suites count A's rows and nobody else's; B lost one, and the pairs are as many as ever."""
    a, b = write(tmp_path / "a"), write(tmp_path / "b")
    said = compare(a, b)
    rows = pd.DataFrame({"row": range(ROWS)})
    count = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": ROWS}}
    assert success(of_frame(rows), count)
    some = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    for name in ("record", "environment", "comparison", "buffers"):
        suites = suite(tmp_path / "suites", name, some)
    assert judge(said, a, b, suites=suites).passed
    lost = seen_through(b, lambda table: without(table, 2, "loss_total"))
    verdict = judge(said, a, lost, suites=suites)
    assert faults(verdict, "record") == f"record B: the frame has {ROWS - 1} rows, must have {ROWS}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_condition_that_no_row_meets(tmp_path):
    none = {"row_condition": 'x=="z"', "condition_parser": "pandas"}
    distinct = {
        "type": "expect_column_distinct_values_to_be_in_set",
        "kwargs": {"column": "x", "value_set": ["q"], **none},
    }
    assert success(of_frame(GOOD), distinct)
    (said,) = gate_says(tmp_path, GOOD, distinct)
    assert said.endswith("does not say what it looked at")


def test_arrays_of_the_same_nan_are_equal_and_another_payload_is_not(tmp_path):
    one, other = np.array([0x7FC00000], "<u4").view("<f4"), np.array([0x7FC00001], "<u4").view("<f4")
    assert gate_says(tmp_path, pd.DataFrame({"a": [one], "b": [one.copy()]}), BIT_EQUAL) == []
    assert (
        "nan (0x7fc00000) in A, nan (0x7fc00001) in B"
        in gate_says(tmp_path, pd.DataFrame({"a": [one], "b": [other]}), BIT_EQUAL)[0]
    )
