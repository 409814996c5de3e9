"""Every fault gives its verdict, and none of them EQUAL."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from comparison.doctoring import DUMP, edited, flip, flipped_dump, pair, redigested
from record.making import killed, record, rewrite, steps

from foxflow import flow
from foxflow.comparison import compare
from foxflow.errors import NoRecord


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_dump_that_does_not_match_its_digest_is_corruption(tmp_path: Path, side: str) -> None:
    a, b = pair(tmp_path)
    rewrite(tmp_path / side / "buffers" / "step-000002.parquet", flipped_dump)
    found = compare(a, b)
    assert found.verdict == flow.NOT_COMPARABLE
    assert found.reason == f"corrupt: {tmp_path / side}: w_q"
    assert found.first == flow.Where(step=2, k=None, group="W", buffer="w_q")
    assert found.compared == 36


@pytest.mark.parametrize("sides", [("a",), ("b",), ("a", "b")])
def test_a_bit_that_flipped_on_disk_is_corruption(tmp_path: Path, sides: tuple[str, ...]) -> None:
    """Compare maps the bytes and asks their digests alone, not the checksums of the file's pages."""
    a, b = pair(tmp_path)
    for side in sides:
        path = tmp_path / side / "buffers" / "step-000002.parquet"
        whole, data = bytearray(path.read_bytes()), pq.read_table(path)["data"][3].as_py()
        whole[whole.index(data) + len(data) - 1] ^= 128
        path.write_bytes(bytes(whole))
    found = compare(a, b)
    assert (found.verdict, found.reason) == (flow.NOT_COMPARABLE, f"corrupt: {tmp_path / sides[0]}: q_logits")
    assert found.first == flow.Where(step=2, k=1, group="H", buffer="q_logits")


def test_sizes_that_do_not_fit_into_the_file_are_corruption(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    path = b / "buffers" / "step-000002.parquet"
    table = edited(pq.read_table(path), "nbytes", lambda values: values.__setitem__(0, 2**62))
    encoding = {"column_encoding": {"data": "DELTA_LENGTH_BYTE_ARRAY"}, "use_dictionary": False}
    said = table.replace_schema_metadata({"foxflow.data": "end to end"})
    pq.write_table(said, path, compression="none", **encoding)
    assert compare(a, b).reason == f"corrupt: {b}: buffers/step-000002.parquet"


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
