"""Equal runs, differing runs and unlike runs: the verdict, the first place, the measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from comparison.doctoring import DUMP, flip, pair
from record.making import captured, manifest, record, rewrite, steps

import foxflow
from foxflow import flow
from foxflow.comparison import as_json, compare
from foxflow.errors import Mistake
from foxflow.record import Writer, open_record


def test_a_run_and_its_twin_are_equal(tmp_path: Path) -> None:
    found = compare(*pair(tmp_path))
    assert (found.verdict, found.reason, found.first) == (flow.EQUAL, None, None)
    assert (found.compared, found.differing, found.missing) == (36, 0, 0)
    assert [step.step for step in found.steps] == list(range(6))
    assert [(g.group, g.verdict, g.compared) for g in found.steps[0].groups] == [
        ("W", "EQUAL", 1),
        ("D", "EQUAL", 1),
        ("G", "EQUAL", 2),
        ("H", "EQUAL", 2),
    ]
    assert found.dumps == (("W", 1, 0), ("D", 1, 0), ("G", 1, 0), ("H", 1, 0))
    assert dict(found.files) == {"eval_summary.json": True, "diag.jsonl": True}
    assert found.fingerprints[0] == found.fingerprints[1] is not None


def test_compare_is_public_and_takes_paths_and_records(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    assert foxflow.compare(str(a), open_record(b)).verdict == flow.EQUAL


def test_one_bit_is_found_named_and_measured(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b", steps(dump=DUMP, edit=flip))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.verdict == flow.DIVERGED
    assert found.first == flow.Where(step=2, k=1, group="H", buffer="q_logits")
    assert (found.compared, found.differing) == (36, 1)
    (buffer,) = [b for step in found.steps for group in step.groups for b in group.buffers]
    assert (buffer.name, buffer.differing, buffer.elements, buffer.max_ulp) == ("q_logits", 1, 12, 1)
    assert (buffer.first_index, buffer.permutation, buffer.nonfinite) == ((1, 2), False, (0, 0))
    assert {group: differing for group, _, differing in found.dumps}["H"] == 1


def test_without_dumps_a_difference_is_named_and_not_measured(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", steps(edit=flip))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.verdict == flow.DIVERGED
    (buffer,) = found.steps[2].groups[3].buffers
    assert (buffer.differing, buffer.max_abs, buffer.max_ulp, buffer.first_index) == (None,) * 4


def test_a_dump_on_one_side_only_is_no_fault(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b")
    assert compare(tmp_path / "a", tmp_path / "b").verdict == flow.EQUAL


@pytest.mark.parametrize(
    ("field", "value", "leaf"),
    [
        ("seed", 43, "seed"),
        ("config", {"steps": 6, "lr": 0.002}, "config.lr"),
        ("config", {"steps": 6}, "config.lr"),
        ("source", "fx1:" + "1" * 32, "source"),
        ("data", {"tape.csv": "cd" * 32}, "data.tape.csv"),
        ("arithmetic", {"version": 1, "device": "H200"}, "arithmetic.device"),
    ],
)
def test_unlike_runs_are_not_comparable_unless_allowed_yet_compared(
    tmp_path: Path, field: str, value: object, leaf: str
) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", **{field: value})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.compared) == (flow.NOT_COMPARABLE, 36)
    assert [name for name, _, _ in found.unlike] == [leaf]
    assert leaf in str(found.reason)
    assert compare(tmp_path / "a", tmp_path / "b", allow=(field,)).verdict == flow.EQUAL


def test_unlike_runs_still_name_their_first_difference(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", steps(edit=flip), seed=43)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.differing) == (flow.NOT_COMPARABLE, 1)
    assert found.first == flow.Where(step=2, k=1, group="H", buffer="q_logits")


def test_what_may_not_be_allowed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="allow must name seed, config"):
        compare(tmp_path, tmp_path, allow=("bits",))


def test_another_environment_is_evidence_and_no_fault(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", environment={"threads": 16, "device": "cpu"})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.verdict == flow.EQUAL
    assert found.environment == (("environment.threads", "1", "16"),)


def test_rows_in_another_order_within_a_step_are_paired_by_their_keys(tmp_path: Path) -> None:
    backwards = (dataclasses.replace(s, buffers=s.buffers[::-1]) for s in steps(dump=DUMP, edit=flip))
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b", backwards)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.compared, found.differing, found.missing) == (flow.DIVERGED, 36, 1, 0)
    assert found.dumps == (("W", 1, 0), ("D", 1, 0), ("G", 1, 0), ("H", 1, 1))
    assert [group.group for group in found.steps[0].groups] == ["W", "D", "G", "H"]


@pytest.mark.parametrize("change", ["dtype", "shape"])
def test_another_dtype_or_shape_of_the_same_bytes_is_a_divergence(tmp_path: Path, change: str) -> None:
    array = np.zeros((3, 4), np.float32)
    other = array.reshape(4, 3) if change == "shape" else array.view(np.int32)
    for side, value in (("a", array), ("b", other)):
        with Writer(tmp_path / side, manifest=manifest()) as writer:
            one = captured("W", "w", value, order=0, k=None, dump=True)
            writer.write(flow.Step(step=0, phase=flow.TRAIN, buffers=(one,)))
            writer.close({})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.differing, found.dumps) == (flow.DIVERGED, 1, (("W", 1, 1),))
    assert found.steps[0].groups[0].buffers[0].max_abs is None


def test_phases_are_kept_apart(tmp_path: Path) -> None:
    for side in ("a", "b"):
        with Writer(tmp_path / side, manifest=manifest()) as writer:
            for phase in (flow.TRAIN, flow.EVAL, flow.FINAL):
                writer.write(dataclasses.replace(next(steps(edit=flip)), phase=phase))
            writer.close({})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert [(step.phase, step.step) for step in found.steps] == [("train", 0), ("eval", 0), ("final", 0)]
    assert as_json(found)["steps"][1]["phase"] == "eval"


def test_steps_out_of_order_on_disk_are_corruption(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    rewrite(b / "digests.parquet", lambda t: pa.concat_tables([t.slice(6), t.slice(0, 6)]))
    assert compare(a, b).reason == f"corrupt: {b}: digests.parquet"


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        ("eval_summary.json", lambda text: text.replace("4", "5"), flow.DIVERGED),
        ("diag.jsonl", lambda text: text.replace('"q": 0.5', '"q": 0.25'), flow.DIVERGED),
        ("diag.jsonl", lambda text: text.replace('{"step": 1, ', '{"step": 1, "x": 1, '), flow.INCOMPLETE),
        ("diag.jsonl", lambda text: text[: text.index("\n") + 1], flow.INCOMPLETE),
        ("diag.jsonl", lambda text: text.replace('"elapsed_s": ', '"elapsed_s": 1'), flow.EQUAL),
    ],
)
def test_summaries_and_diag_lines_count(tmp_path: Path, name: str, change: Callable[[str], str], verdict: str) -> None:
    a, b = pair(tmp_path)
    before = (b / name).read_text()
    assert change(before) != before
    (b / name).write_text(change(before))
    assert compare(a, b).verdict == verdict


def test_a_summary_on_one_side_only_is_incomplete(tmp_path: Path) -> None:
    record(tmp_path / "a")
    with Writer(tmp_path / "b", manifest=manifest()) as writer:
        for step in steps():
            writer.write(step)
        writer.close({})
    assert compare(tmp_path / "a", tmp_path / "b").verdict == flow.INCOMPLETE


def test_a_summary_of_half_a_run_is_no_divergence(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", steps(4))
    (tmp_path / "b" / "eval_summary.json").write_text("{}")
    assert compare(tmp_path / "a", tmp_path / "b").verdict == flow.INCOMPLETE


def test_steps_may_span_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b", steps(dump=DUMP, edit=flip))
    table = pq.read_table(tmp_path / "b" / "digests.parquet")
    pq.write_table(table, tmp_path / "b" / "digests.parquet", row_group_size=5)
    one = open_record(tmp_path / "b")
    cut = dataclasses.replace(one, digests=lambda: (b.slice(i, 5) for b in one.digests() for i in range(0, len(b), 5)))
    found = compare(tmp_path / "a", cut)
    assert (found.verdict, found.compared, found.differing, found.missing) == (flow.DIVERGED, 36, 1, 0)
    assert [group.compared for group in found.steps[1].groups] == [1, 1, 2, 2]
    assert found.steps[2].groups[3].buffers[0].differing == 1
