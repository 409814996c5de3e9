"""The gate on records of the real writer, with real Great Expectations: what passes, and what must not."""

import dataclasses
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate.pairs import PAIR_EQUAL, faults, judged, seen_through, with_digests, without
from track.small_record import ROWS, write

from foxflow.comparison import compare
from foxflow.flow import DIVERGED, INCOMPLETE, NOT_COMPARABLE
from foxflow.gate import as_json, judge
from foxflow.gate.suites import folder


def test_two_equal_runs_pass_and_every_expectation_of_every_file_is_counted(pair):
    verdict = judged(*pair)
    assert verdict.passed, verdict.sentence
    checks = {
        name: len(json.loads((folder() / f"{name}.json").read_text())["expectations"])
        for name in ("record", "comparison", "environment", "buffers")
    }
    frames = {"record": 2, "comparison": 6, "environment": 2, "buffers": 2}
    assert as_json(verdict) == {
        "verdict": "PASS",
        "sentence": verdict.sentence,
        "suites": [{"name": name, "evaluated": checks[name] * frames[name], "failed": []} for name in checks],
    }
    assert f"{ROWS} pairs are equal to the last bit" in verdict.sentence


def test_one_bit_of_one_buffer_fails_and_is_named(pair, tmp_path):
    flipped = write(tmp_path / "c", flip=(1, 1, "iqn_q_values"))
    verdict = judged(pair[0], flipped)
    assert as_json(verdict)["verdict"] == "FAIL"
    said = faults(verdict, "comparison")
    assert "the comparison is DIVERGED" in said
    assert f"digests: {PAIR_EQUAL} fails for 1 of {ROWS} rows" in said
    assert "dump train 1: expect_buffers_to_be_bit_equal" in faults(verdict, "buffers")
    assert "iqn_q_values', '1 of 4 elements differ, the first at [" in faults(verdict, "buffers")
    assert "First at step 1, buffer iqn_q_values" in verdict.sentence


def test_a_comparison_that_wrongly_says_equal_does_not_carry_the_gate(pair, tmp_path):
    flipped = write(tmp_path / "c", flip=(3, None, "outcome_w"))
    verdict = judged(pair[0], flipped, verdict="EQUAL", differing=0, fingerprints=("x", "x"))
    assert "digests: expect_column_pair_values_to_be_equal" in faults(verdict, "comparison")


@pytest.mark.parametrize("said", [DIVERGED, INCOMPLETE, NOT_COMPARABLE])
def test_a_comparison_that_is_not_equal_fails_equal_records(pair, said):
    assert faults(judged(*pair, verdict=said, reason="why"), "comparison") == f"the comparison is {said} (why)"


def test_another_source_fails_unless_it_was_allowed(pair, tmp_path):
    other = write(tmp_path / "c", manifest={"source": "fx1:" + "d" * 32})
    assert "NOT_COMPARABLE" in faults(judged(pair[0], other), "comparison")
    assert judge(compare(pair[0], other, allow=("source",)), pair[0], other).passed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compared": 0}, "the comparison compared nothing"),
        ({"compared": ROWS - 1}, f"the comparison saw {ROWS - 1} pairs, the manifests state {ROWS} and {ROWS}"),
        ({"fingerprints": ("x", "y")}, "the fingerprints differ"),
        ({"a": "elsewhere"}, "the comparison is of elsewhere and"),
    ],
)
def test_a_comparison_whose_numbers_do_not_fit_the_records_fails(pair, changes, words):
    assert words in faults(judged(*pair, **changes), "comparison")


def test_dumps_that_the_comparison_did_not_see_fail(pair):
    said = faults(judged(*pair, dumps=(("H", 9, 0),)), "buffers")
    assert said == "8 pairs of dumped buffers were checked, the comparison saw 9"


def test_a_partner_missing_in_one_record_fails_on_its_side(pair):
    said = compare(*pair)
    for side, column in ((0, "digest_a"), (1, "digest_b")):
        records = list(pair)
        records[side] = seen_through(records[side], lambda table: without(table, 2, "loss_total"))
        verdict = judge(said, *records)
        assert f"digests: expect_column_values_to_not_be_null(column={column}) fails for 1 of {ROWS}" in faults(
            verdict, "comparison"
        )
        assert f"expect_table_row_count_to_equal(value={ROWS}) fails, observed {ROWS - 1}" in faults(verdict, "record")


def test_a_pair_missing_in_both_records_fails(pair):
    records = [seen_through(record, lambda table: without(table, 2, "loss_total")) for record in pair]
    verdict = judge(compare(*pair), *records)
    assert f"digests: expect_table_row_count_to_equal(value={ROWS}) fails, observed {ROWS - 1}" in faults(
        verdict, "comparison"
    )


def test_records_without_a_row_fail(pair):
    records = [dataclasses.replace(record, digests=lambda: iter(())) for record in pair]
    verdict = judge(compare(*pair), *records)
    assert "record A: the frame is empty, nothing was checked" in faults(verdict, "record")
    assert "digests: the frame is empty, nothing was checked" in faults(verdict, "comparison")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i, text: None, "expect_column_values_to_not_be_null(column=digest) fails for 17 of 17"),
        (lambda i, text: text.upper() if i == 3 else text, "expect_column_values_to_match_regex"),
        (lambda i, text: text + "\n" if i == 3 else text, "expect_column_values_to_match_regex"),
        (lambda i, text: "" if i == 3 else text, "expect_column_values_to_match_regex"),
    ],
)
def test_digests_that_are_null_or_malformed_alike_in_both_records_fail(pair, change, words):
    records = [seen_through(record, lambda table: with_digests(table, change)) for record in pair]
    assert words in faults(judge(compare(*pair), *records), "record")


def test_a_row_twice_fails_in_both_suites(pair):
    records = [seen_through(record, lambda table: pa.concat_tables([table, table.slice(0, 1)])) for record in pair]
    verdict = judge(compare(*pair), *records)
    assert "expect_compound_columns_to_be_unique" in faults(verdict, "record")
    assert "digests: expect_compound_columns_to_be_unique" in faults(verdict, "comparison")


@pytest.mark.parametrize("steps", [(0, 1, 3), (1, 2, 3)])
def test_a_step_left_out_alike_in_both_records_fails(pair, steps):
    wanted = pa.array(steps, pa.int64())
    records = [
        seen_through(
            r, lambda t: t.filter(pc.or_(pc.is_in(t["step"], wanted), pc.equal(t["phase"].cast("string"), "eval")))
        )
        for r in pair
    ]
    assert "expect_column_values_to_be_in_set(column=advance" in faults(judge(compare(*pair), *records), "record")


def test_steps_that_the_writer_left_out_alike_in_both_runs_fail(tmp_path):
    records = [write(tmp_path / name, steps=(0, 1, 3)) for name in "ab"]
    assert "expect_column_values_to_be_in_set(column=advance" in faults(judged(*records), "record")


def test_a_declared_buffer_that_was_never_recorded_fails(tmp_path):
    names = {"capture": {"names": ["outcome_w", "loss_total", "never_logged"]}}
    records = [write(tmp_path / name, manifest=names) for name in "ab"]
    assert "expect_column_distinct_values_to_contain_set" in faults(judged(*records), "record")


def test_a_run_that_was_killed_fails(pair, tmp_path):
    from track.small_record import MANIFEST, _captured

    from foxflow.flow import TRAIN, Step
    from foxflow.record import Writer, open_record

    with Writer(tmp_path / "killed", manifest=MANIFEST) as writer:
        place = ("R", "loss_total", None)
        writer.write(Step(step=0, phase=TRAIN, buffers=(_captured(0, 0, place, flip=False, dumped=False),)))
    verdict = judged(pair[0], open_record(tmp_path / "killed"))
    assert "record B: expect_column_values_to_be_in_set(column=complete" in faults(verdict, "record")


ALONE = """
import sys
def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise OSError(f"network: {event} {args}")
sys.addaudithook(refuse)
from foxflow.comparison import compare
from foxflow.gate import judge
from foxflow.record import open_record
a, b = (open_record(path) for path in sys.argv[1:])
assert judge(compare(a, b), a, b).passed
"""


def test_the_gate_says_nothing_writes_nothing_and_asks_no_network(pair, tmp_path):
    empty = tmp_path / "here"
    empty.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "HOME": str(empty),
        "TMPDIR": str(empty),
    }
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, *(record.path for record in pair)],
        cwd=empty,
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert list(empty.iterdir()) == []


def test_importing_the_gate_loads_nothing_heavy():
    code = "import sys, foxflow.gate; print({'great_expectations', 'pandas', 'pyarrow', 'torch'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
