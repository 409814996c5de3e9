"""What is written comes back, what contradicts itself is refused, a killed run keeps its steps."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from record.making import captured, expected, keep, killed, manifest, record, rewrite, rows, seen, steps

from foxflow import flow
from foxflow.errors import CorruptRecord, Mistake
from foxflow.record import Writer, open_record, verify


def test_a_record_gives_back_what_was_written(tmp_path: Path) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({0, 2})))
    assert opened.complete
    assert opened.missing == ()
    assert seen(opened) == expected(list(steps()))
    assert opened.dump_steps == ((flow.TRAIN, 0), (flow.TRAIN, 2))
    dumped = [row for batch in opened.dump(flow.TRAIN, 2) for row in batch.to_pylist()]
    taken = [b for b in list(steps(dump=frozenset({2})))[2].buffers if b.data is not None]
    assert [(row["buffer"], row["k"], row["data"]) for row in dumped] == [(b.buffer, b.k, b.data) for b in taken]
    assert opened.read("eval_summary.json") == b'{"b_size": 4}\n'
    assert opened.read("alpha_rl_train_summary.json") is None
    assert verify(opened) == ()


def test_batches_have_the_declared_columns(tmp_path: Path) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({0})))
    assert tuple(next(opened.digests()).schema.names) == flow.DIGEST_COLUMNS
    assert tuple(next(opened.dump(flow.TRAIN, 0)).schema.names) == (*flow.DIGEST_COLUMNS, "data")


def test_rank_is_in_every_row(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", manifest=manifest(), rank=3)
    for step in steps(1):
        writer.write(step)
    assert {row["rank"] for row in rows(writer.close({}))} == {3}


def test_eval_and_final_dumps_have_names_of_their_own(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", manifest=manifest())
    for phase, number in ((flow.TRAIN, 0), (flow.EVAL, 0), (flow.FINAL, 1)):
        step = next(steps(1, dump=frozenset({0})))
        writer.write(dataclasses.replace(step, phase=phase, step=number))
    closed = writer.close({})
    assert closed.dump_steps == ((flow.TRAIN, 0), (flow.EVAL, 0), (flow.FINAL, 1))
    names = {"step-000000.parquet", "eval-000000.parquet", "final-000001.parquet"}
    assert {path.name for path in (tmp_path / "a" / "buffers").iterdir()} == names
    assert json.loads(closed.manifest)["capture"]["steps"] == [["train", 0, 1], ["eval", 0, 1], ["final", 1, 2]]


def test_large_dumps_are_read_in_pieces(tmp_path: Path) -> None:
    big = [captured("B", f"ring{i}", np.full(3_000_000, i, np.float32), order=i, k=None, dump=True) for i in range(4)]
    writer = Writer(tmp_path / "a", manifest=manifest())
    writer.write(flow.Step(step=0, phase=flow.TRAIN, buffers=tuple(big)))
    closed = writer.close({})
    assert [len(batch) for batch in closed.dump(flow.TRAIN, 0)] == [1, 1, 1, 1]
    assert verify(closed) == ()


@pytest.mark.parametrize("count", [1, 1500])
def test_bytes_read_as_they_lie_are_those_that_parquet_reads(tmp_path: Path, count: int) -> None:
    """Also of more buffers than one page surely takes, of empty ones, and of a file that others wrote."""
    sizes = [(i % 7 * (i % 5) ** 4, 3) for i in range(count)]
    ks = [None if i % 3 else i for i in range(count)]
    rows = [
        captured("B", f"größe {i}", np.full(s, i, np.float32), order=i, k=k, dump=True)
        for i, (s, k) in enumerate(zip(sizes, ks, strict=True))
    ]
    writer = Writer(tmp_path / "a", manifest=manifest())
    writer.write(flow.Step(step=0, phase=flow.TRAIN, buffers=tuple(rows)))
    closed = writer.close({})
    path = tmp_path / "a" / "buffers" / "step-000000.parquet"
    wanted = [row.data for row in rows]
    for mapped in (True, False):
        assert (pq.ParquetFile(path).metadata.metadata.get(b"foxflow.data") == b"end to end") == mapped
        found = [row for batch in closed.dump_unchecked(flow.TRAIN, 0) for row in batch.to_pylist()]
        assert [row["data"] for row in found] == wanted == pq.read_table(path)["data"].to_pylist()
        assert found == [row for batch in closed.dump(flow.TRAIN, 0) for row in batch.to_pylist()]
        rewrite(path, lambda table: table)


def test_the_fingerprint_ignores_dumps_environment_and_folder(tmp_path: Path) -> None:
    plain = json.loads(record(tmp_path / "a").manifest)
    dumped = record(tmp_path / "b", steps(dump=frozenset(range(6))), environment={"threads": 16, "device": "cuda"})
    assert plain["fingerprint"] == json.loads(dumped.manifest)["fingerprint"]


def test_the_fingerprint_sees_one_bit_the_order_and_a_dropped_step(tmp_path: Path) -> None:
    def flip(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray:
        if (step, k, buffer) == (3, 1, "q_logits"):
            array.view(np.uint32)[0, 0] ^= 1
        return array

    backwards = (dataclasses.replace(step, buffers=step.buffers[::-1]) for step in steps())
    made = [record(tmp_path / "a"), record(tmp_path / "b", steps(edit=flip)), record(tmp_path / "c", backwards)]
    made.append(record(tmp_path / "d", (step for step in steps() if step.step != 2)))
    assert len({json.loads(one.manifest)["fingerprint"] for one in made}) == 4


def test_buffers_outside_the_declared_capture_set_have_no_part_in_the_fingerprint(tmp_path: Path) -> None:
    def without(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray | None:
        return None if buffer == "sampled_h_t" else array

    capture = {"names": ["w_q", "obs", "q_logits"]}
    one = json.loads(record(tmp_path / "a", steps(edit=without), capture=capture).manifest)
    other = json.loads(record(tmp_path / "b", steps(edit=keep), capture=capture).manifest)
    assert one["fingerprint"] == other["fingerprint"]
    assert (one["rows"], other["rows"], other["capture"]["rows"]) == (24, 36, 24)


def test_the_declared_names_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    one = json.loads(record(tmp_path / "a", capture={"names": ["w_q"]}).manifest)
    other = json.loads(record(tmp_path / "b", capture={"names": ["w_q", "not there"]}).manifest)
    assert one["fingerprint"] != other["fingerprint"]


def test_a_recording_thinned_by_time_has_no_fingerprint(tmp_path: Path) -> None:
    thinned = record(tmp_path / "a", capture={"names": None, "thinned": True})
    assert json.loads(thinned.manifest)["fingerprint"] is None


def test_the_fingerprint_can_be_asked_before_closing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", manifest=manifest())
    assert writer.fingerprint() is None
    for step in steps():
        writer.write(step)
    before = writer.fingerprint()
    assert before is not None
    assert json.loads(writer.close({}).manifest)["fingerprint"] == before


def test_a_folder_that_holds_a_record_is_refused_and_kept(tmp_path: Path) -> None:
    closed = record(tmp_path / "a")
    with pytest.raises(Mistake, match="hold no record yet"):
        Writer(tmp_path / "a", manifest=manifest())
    assert open_record(tmp_path / "a").manifest == closed.manifest


def test_a_manifest_that_lacks_or_invents_keys_is_refused(tmp_path: Path) -> None:
    lacking = manifest()
    del lacking["seed"]
    for wrong in (lacking, manifest(extra=1), manifest(capture=None)):
        with pytest.raises(Mistake, match="manifest"):
            Writer(tmp_path / "a", manifest=wrong)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "f99"}, "have a dtype"),
        ({"digest": "fx1:00"}, "32 hex digits"),
        ({"nbytes": 44}, "hold 48 bytes"),
        ({"data": b"short"}, "hold 48 bytes"),
        ({"shape": (4, 4)}, "hold 64 bytes"),
    ],
)
def test_a_buffer_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    step = next(steps(1))
    broken = (dataclasses.replace(step.buffers[0], **change), *step.buffers[1:])  # type: ignore[arg-type]
    with Writer(tmp_path / "a", manifest=manifest()) as writer, pytest.raises(Mistake, match=said):
        writer.write(dataclasses.replace(step, buffers=broken))


def test_steps_out_of_order_and_buffers_twice_are_refused(tmp_path: Path) -> None:
    first, second = steps(2)
    with Writer(tmp_path / "a", manifest=manifest()) as writer:
        writer.write(dataclasses.replace(second, phase=flow.EVAL))
        for wrong in (dataclasses.replace(second, phase=flow.EVAL), first):
            with pytest.raises(Mistake, match="come after eval step 1"):
                writer.write(wrong)
        with pytest.raises(Mistake, match="be one of"):
            writer.write(dataclasses.replace(second, phase="other"))
        with pytest.raises(Mistake, match="once per k"):
            writer.write(dataclasses.replace(second, phase=flow.FINAL, buffers=second.buffers * 2))


def test_a_run_that_raises_leaves_an_incomplete_record(tmp_path: Path) -> None:
    def crash() -> None:
        with Writer(tmp_path / "a", manifest=manifest()) as writer:
            writer.write(next(steps(1)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    opened = open_record(tmp_path / "a")
    assert not opened.complete
    assert seen(opened) == expected(list(steps(1)))


def test_a_killed_run_leaves_an_incomplete_record_up_to_its_last_step(tmp_path: Path) -> None:
    opened = killed(tmp_path / "a")
    assert not opened.complete
    assert opened.missing == ("the run ended before its record was closed",)
    assert seen(opened) == expected(list(steps(4)))
    assert opened.dump_steps == ((flow.TRAIN, 1),)
    assert (opened.read("diag.jsonl") or b"").count(b"\n") == 4
    assert json.loads(opened.manifest)["fingerprint"] is None
    assert verify(opened) == ()


def test_a_torn_last_write_costs_the_last_step_alone(tmp_path: Path) -> None:
    opened = killed(tmp_path / "a")
    for name in ("digests.arrows", "diag.jsonl"):
        path = tmp_path / "a" / name
        os.truncate(path, path.stat().st_size - 5)
    assert seen(opened) == expected(list(steps(3)))
    assert (opened.read("diag.jsonl") or b"").count(b"\n") == 3


def test_closing_notices_that_steps_were_lost(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", manifest=manifest())
    for step in steps(3):
        writer.write(step)
    os.truncate(tmp_path / "a" / "digests.arrows", 3000)
    with pytest.raises(CorruptRecord, match="must hold 18 rows"):
        writer.close({})
    assert not (tmp_path / "a" / "digests.parquet").exists()


def test_an_empty_run_closes_into_an_empty_record(tmp_path: Path) -> None:
    closed = record(tmp_path / "a", iter(()))
    assert closed.complete
    assert rows(closed) == []
    assert json.loads(closed.manifest)["fingerprint"] is None
