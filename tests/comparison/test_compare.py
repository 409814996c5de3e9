"""Every fault gives its verdict, and none of them EQUAL."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record.making import captured, manifest, record, steps
from record.test_record import killed, rewrite

import foxflow
from foxflow import flow
from foxflow.comparison import as_json, compare
from foxflow.digest import digest
from foxflow.errors import Mistake, NoRecord
from foxflow.record import Writer, open_record

DUMP = frozenset({2})
Table = Callable[[pa.Table], pa.Table]


def pair(tmp_path: Path) -> tuple[Path, Path]:
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b", steps(dump=DUMP))
    return tmp_path / "a", tmp_path / "b"


def flip(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray:
    """One bit of one element: step 2, q_logits[1, 2], k 1."""
    if (step, k, buffer) == (2, 1, "q_logits"):
        array.view(np.uint32)[1, 2] ^= 1
    return array


def edited(table: pa.Table, name: str, change: Callable[[list[object]], None]) -> pa.Table:
    values = table[name].to_pylist()
    change(values)
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def flipped_dump(table: pa.Table) -> pa.Table:
    def first_bit(values: list[object]) -> None:
        values[0] = bytes([values[0][0] ^ 1]) + values[0][1:]  # type: ignore[index]

    return edited(table, "data", first_bit)


def redigested(table: pa.Table) -> pa.Table:
    texts = [
        digest(d, t, tuple(json.loads(s)))
        for d, t, s in zip(*(table[name].to_pylist() for name in ("data", "dtype", "shape")), strict=True)
    ]
    return edited(table, "digest", lambda values: values.__setitem__(slice(None), texts))


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


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_dump_that_does_not_match_its_digest_is_corruption(tmp_path: Path, side: str) -> None:
    a, b = pair(tmp_path)
    rewrite(tmp_path / side / "buffers" / "step-000002.parquet", flipped_dump)
    found = compare(a, b)
    assert found.verdict == flow.NOT_COMPARABLE
    assert found.reason == f"corrupt: {tmp_path / side}: w_q"
    assert found.first == flow.Where(step=2, k=None, group="W", buffer="w_q")
    assert found.compared == 36


def test_a_dump_changed_alike_on_both_sides_is_still_corruption(tmp_path: Path) -> None:
    for folder in pair(tmp_path):
        rewrite(folder / "buffers" / "step-000002.parquet", flipped_dump)
    assert compare(tmp_path / "a", tmp_path / "b").verdict == flow.NOT_COMPARABLE


def test_a_dump_redigested_in_itself_alone_still_contradicts_the_record(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    rewrite(b / "buffers" / "step-000002.parquet", lambda table: redigested(flipped_dump(table)))
    assert compare(a, b).reason == f"corrupt: {b}: w_q"


def test_a_dump_redigested_in_the_whole_record_is_a_divergence(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    path = b / "buffers" / "step-000002.parquet"
    rewrite(path, lambda table: redigested(flipped_dump(table)))
    fresh = pq.read_table(path)["digest"][0].as_py()
    rewrite(b / "digests.parquet", lambda t: edited(t, "digest", lambda values: values.__setitem__(12, fresh)))
    found = compare(a, b)
    assert (found.verdict, found.differing) == (flow.DIVERGED, 1)
    assert found.first == flow.Where(step=2, k=None, group="W", buffer="w_q")


def test_dumps_of_another_run_in_place_of_ones_own_are_corruption(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    record(tmp_path / "c", steps(dump=DUMP, edit=flip))
    (tmp_path / "c" / "buffers" / "step-000002.parquet").replace(b / "buffers" / "step-000002.parquet")
    assert compare(a, b).reason == f"corrupt: {b}: q_logits"


@pytest.mark.parametrize("name", ["digests.parquet", "buffers/step-000002.parquet", "manifest.json"])
@pytest.mark.parametrize("fault", ["cut", "gone"])
def test_cut_and_deleted_files_are_corruption(tmp_path: Path, name: str, fault: str) -> None:
    a, b = pair(tmp_path)
    if fault == "cut":
        os.truncate(b / name, (b / name).stat().st_size - 30)
    elif name == "manifest.json":
        (b / name).unlink()
        with pytest.raises(NoRecord):
            compare(a, b)
        return
    else:
        (b / name).unlink()
    found = compare(a, b)
    assert (found.verdict, found.reason) == (flow.NOT_COMPARABLE, f"corrupt: {b}: {name}")
    assert found.first is not None
    assert found.first.buffer == name


@pytest.mark.parametrize("side", ["a", "b", "both"])
def test_a_deleted_row_is_missing(tmp_path: Path, side: str) -> None:
    a, b = pair(tmp_path)
    for folder in (a, b) if side == "both" else (tmp_path / side,):
        at = 20 if folder == a else 21
        rewrite(folder / "digests.parquet", lambda t, at=at: pa.concat_tables([t.slice(0, at), t.slice(at + 1)]))
    found = compare(a, b)
    assert found.verdict == flow.INCOMPLETE
    assert found.missing == (2 if side == "both" else 1)
    assert found.compared == 36 - found.missing
    assert found.first is not None
    assert found.first.step == 3


def test_a_row_twice_is_never_equal(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    rewrite(b / "digests.parquet", lambda t: pa.concat_tables([t.slice(0, 5), t.slice(4)]))
    assert compare(a, b).verdict != flow.EQUAL
    rewrite(b / "digests.parquet", lambda t: pa.concat_tables([t.slice(0, 1), t.slice(0)]))
    assert compare(b, a).verdict != flow.EQUAL


def test_a_dropped_step_is_missing_and_the_rest_is_compared(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", (step for step in steps() if step.step not in (0, 3)))
    for one, other in (("a", "b"), ("b", "a")):
        found = compare(tmp_path / one, tmp_path / other)
        assert (found.verdict, found.compared, found.missing) == (flow.INCOMPLETE, 24, 12)
        assert [step.step for step in found.steps] == list(range(6))
        assert {group.verdict for group in found.steps[3].groups} == {flow.MISSING}
        assert {group.verdict for group in found.steps[4].groups} == {flow.EQUAL}


def test_an_earlier_missing_buffer_does_not_hide_the_first_divergence(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", (step for step in steps(edit=flip) if step.step != 0))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.verdict == flow.DIVERGED
    assert found.first == flow.Where(step=2, k=1, group="H", buffer="q_logits")


@pytest.mark.parametrize("empty", [("a",), ("b",), ("a", "b")])
def test_empty_records_are_never_equal(tmp_path: Path, empty: tuple[str, ...]) -> None:
    for side in ("a", "b"):
        record(tmp_path / side, iter(()) if side in empty else steps())
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.compared) == (flow.INCOMPLETE, 0)
    assert "nothing was compared" in str(found.reason)


def test_a_killed_run_is_incomplete_and_compared_up_to_its_last_step(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(dump=frozenset({1})))
    killed(tmp_path / "b")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.compared, found.missing) == (flow.INCOMPLETE, 24, 12)
    assert "before its record was closed" in str(found.reason)
    assert found.dumps[0] == ("W", 1, 0)


def test_two_runs_killed_at_one_step_are_not_equal(tmp_path: Path) -> None:
    killed(tmp_path / "a")
    killed(tmp_path / "b")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.compared, found.missing) == (flow.INCOMPLETE, 24, 0)


def test_a_difference_in_a_killed_run_is_a_divergence(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(edit=flip))
    killed(tmp_path / "b")
    assert compare(tmp_path / "a", tmp_path / "b").verdict == flow.DIVERGED


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
