"""What the gate looks at beside digests: files, summaries, diag lines, dumps, environments."""

import dataclasses
import json
import os

import pyarrow as pa
import pytest
from gate.pairs import faults, judged
from track.small_record import ENVIRONMENT, SUMMARIES, write

from foxflow.comparison import compare
from foxflow.gate import frames, judge
from foxflow.gate.checkpoint import Checkpoints
from foxflow.gate.suites import check, folder


@pytest.mark.parametrize("name", ["eval_summary.json", "diag.jsonl", "digests.parquet", "buffers/step-000001.parquet"])
def test_one_byte_of_any_file_fails_by_its_sha256(pair, name):
    said = compare(*pair)
    file = os.path.join(pair[1].path, name)
    with open(file, "r+b") as opened:
        opened.seek(-3, os.SEEK_END)
        byte = opened.read(1)[0]
        opened.seek(-3, os.SEEK_END)
        opened.write(bytes([byte ^ 1]))
    verdict = judge(said, *pair)
    assert not verdict.passed
    assert "files B: expect_column_pair_values_to_be_equal" in faults(verdict, "comparison") or "corrupt" in faults(
        verdict, "record"
    )


def test_a_file_that_is_gone_fails(pair):
    said = compare(*pair)
    os.unlink(os.path.join(pair[0].path, "buffers", "step-000000.parquet"))
    assert "corrupt" in faults(judge(said, *pair), "record")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"b_size": 8, "undefined": ["sharpe"], "win_rate": 0.25}', "another number"),
        (b'{"b_size": 8, "undefined": ["sharpe"], "win_rate": 0.50}', "another spelling"),
        (b'{"b_size": 8, "undefined": [], "win_rate": 0.5}', "a shorter list"),
        (b'{"b_size": 8, "win_rate": 0.5, "undefined": ["sharpe"]}', "another order of keys"),
        (b'{"b_size": 8, "undefined": ["sharpe"], "win_rate": -0.0}', "a sign"),
        (b"not JSON \xff", "no JSON"),
    ],
)
def test_an_eval_summary_that_differs_fails_by_its_own_frame(pair, tmp_path, text, why):
    other = write(tmp_path / "c", summaries={**SUMMARIES, "eval_summary.json": text})
    for side, passes in ((pair[1], True), (other, False)):
        (frame,) = [one for one in frames.texts(pair[0], side) if one.name == "eval_summary.json"]
        assert (check(frame, folder(), Checkpoints())[1] == []) is passes, why


def test_a_summary_on_one_side_only_fails_and_on_neither_passes(pair, tmp_path):
    bare = [write(tmp_path / name, summaries={}) for name in ("c", "d")]
    said = faults(judged(pair[0], bare[0], verdict="EQUAL"), "comparison")
    assert "alpha_rl_train_summary.json: expect_column_values_to_not_be_null(column=digest_b)" in said
    assert judged(*bare).passed


def test_a_leaf_of_diag_that_differs_fails_and_elapsed_time_does_not(pair):
    lines = pair[1].read("diag.jsonl").decode().splitlines()
    changed = [json.dumps({**json.loads(line), "elapsed_s": 99.0}) for line in lines]
    read = {"diag.jsonl": "\n".join(changed).encode()}
    later = dataclasses.replace(pair[1], read=lambda name: read.get(name) or pair[1].read(name))
    assert judge(compare(*pair), pair[0], later).passed
    read["diag.jsonl"] = read["diag.jsonl"].replace(b"0.25", b"0.5")
    said = faults(judge(compare(*pair), pair[0], later), "comparison")
    assert "diag.jsonl: expect_column_pair_values_to_be_equal" in said
    assert "number 0.5" in said


def test_a_dump_whose_bytes_differ_under_equal_digests_fails(pair):
    """A fault of fx1 itself would look so; the gate compares the bytes."""

    def dump(phase, step):
        for batch in pair[1].dump(phase, step):
            data = pa.array([bytes([d[0] ^ 1]) + d[1:] for d in batch.column("data").to_pylist()], pa.large_binary())
            yield batch.set_column(batch.schema.get_field_index("data"), "data", data)

    verdict = judge(compare(*pair), pair[0], dataclasses.replace(pair[1], dump=dump))
    assert "dump train 0: expect_buffers_to_be_bit_equal" in faults(verdict, "buffers")


def test_a_dump_on_one_side_only_is_no_fault(pair, tmp_path):
    verdict = judged(pair[0], write(tmp_path / "c", dumps=0))
    assert verdict.passed
    assert "buffers" not in [suite.name for suite in verdict.suites]


def test_each_setting_that_was_not_recorded_fails(tmp_path):
    records = [write(tmp_path / name, manifest={"environment": {}}) for name in "ab"]
    said = faults(judged(*records), "environment")
    for setting in ENVIRONMENT:
        assert f"expect_column_values_to_not_be_null(column={setting}) fails" in said


def test_a_switch_that_was_off_fails_on_foxflows_arithmetic_and_not_in_a_loop_of_others(tmp_path):
    off = {"environment": {**ENVIRONMENT, "deterministic_algorithms": False}}
    records = [write(tmp_path / name, manifest=off) for name in "ab"]
    assert "column=deterministic_algorithms" in faults(judged(*records), "environment")
    foreign = {"environment": {**off["environment"], "float_contract": None, "arithmetic": None}, "arithmetic": None}
    assert judged(*[write(tmp_path / name, manifest=foreign) for name in "cd"]).passed


def test_another_environment_is_no_fault(pair, tmp_path):
    other = {"environment": {**ENVIRONMENT, "threads": 16, "device": "cuda", "torch": "2.11"}}
    assert judged(pair[0], write(tmp_path / "c", manifest=other)).passed
