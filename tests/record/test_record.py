"""A record says what was captured, complete or not, and refuses what contradicts itself."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record.making import captured, keep, manifest, record, steps

from foxflow import flow
from foxflow.errors import CorruptRecord, Mistake, NoRecord
from foxflow.record import Writer, manifest_digest, open_record, verify

TESTS = Path(__file__).resolve().parent.parent


def rows(opened: flow.Record) -> list[dict[str, object]]:
    return [row for batch in opened.digests() for row in batch.to_pylist()]


def expected(taken: list[flow.Step]) -> list[tuple[object, ...]]:
    return [(s.step, s.phase, b.k, b.buffer, list(b.shape), b.digest) for s in taken for b in s.buffers]


def seen(opened: flow.Record) -> list[tuple[object, ...]]:
    return [
        (r["step"], r["phase"], r["k"], r["buffer"], json.loads(str(r["shape"])), r["digest"]) for r in rows(opened)
    ]


def rewrite(path: Path, change: object) -> None:
    """Replace a Parquet file by a changed one, with sound pages and checksums."""
    table = pq.read_table(path)
    pq.write_table(change(table), path)  # type: ignore[operator]


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


def test_what_is_no_record_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NoRecord, match=r"manifest\.json, got no such folder"):
        open_record(tmp_path / "nothing")
    with pytest.raises(NoRecord, match=r"manifest\.json, got a folder without one"):
        open_record(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": 1}', "\xff"])
def test_a_broken_manifest_is_corruption(tmp_path: Path, text: str) -> None:
    record(tmp_path / "a")
    (tmp_path / "a" / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptRecord, match=r"manifest\.json"):
        open_record(tmp_path / "a")


def test_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a" / "manifest.json"
    text = record(tmp_path / "a").manifest
    path.write_text(text.replace('"schema": 1', '"schema": 2'))
    with pytest.raises(Mistake, match="be of schema 1, got 2"):
        open_record(tmp_path / "a")


def test_the_manifest_digest_is_of_the_file(tmp_path: Path) -> None:
    opened = record(tmp_path / "a")
    line = subprocess.run(["sha256sum", tmp_path / "a" / "manifest.json"], capture_output=True, check=True, text=True)
    assert manifest_digest(opened) == line.stdout.split()[0]


@pytest.mark.parametrize("name", ["digests.parquet", "buffers/step-000002.parquet"])
def test_a_cut_file_is_named(tmp_path: Path, name: str) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({2})))
    path = tmp_path / "a" / name
    os.truncate(path, path.stat().st_size - 40)
    with pytest.raises(CorruptRecord, match=name):
        list(opened.digests() if name.startswith("digests") else opened.dump(flow.TRAIN, 2))
    assert [fault for fault in verify(opened) if fault.startswith(name)]


@pytest.mark.parametrize("name", ["digests.parquet", "buffers/step-000002.parquet", "eval_summary.json", "diag.jsonl"])
def test_a_deleted_file_is_named(tmp_path: Path, name: str) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({2})))
    (tmp_path / "a" / name).unlink()
    assert f"{name}: is listed in the manifest, not there" in verify(opened)
    if not name.endswith("parquet"):
        with pytest.raises(CorruptRecord, match=name):
            opened.read(name)


def test_a_flipped_bit_on_disk_is_found_when_read_and_by_verify(tmp_path: Path) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({2})))
    path = tmp_path / "a" / "buffers" / "step-000002.parquet"
    whole = bytearray(path.read_bytes())
    data = list(steps(dump=frozenset({2})))[2].buffers[0].data
    assert data is not None
    whole[whole.index(data[:16])] ^= 1
    path.write_bytes(bytes(whole))
    with pytest.raises(CorruptRecord, match=r"step-000002\.parquet"):
        list(opened.dump(flow.TRAIN, 2))
    assert len(verify(opened)) == 2


def test_verify_finds_a_dump_that_does_not_match_its_digest(tmp_path: Path) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({2})))

    def flip(table: pa.Table) -> pa.Table:
        data = table["data"].to_pylist()
        data[0] = bytes([data[0][0] ^ 1]) + data[0][1:]
        return table.set_column(table.schema.get_field_index("data"), "data", pa.array(data, pa.large_binary()))

    rewrite(tmp_path / "a" / "buffers" / "step-000002.parquet", flip)
    assert [fault for fault in verify(opened) if "w_q must have digest" in fault]


def test_verify_finds_a_digest_that_was_edited(tmp_path: Path) -> None:
    opened = record(tmp_path / "a", steps(dump=frozenset({2})))

    def edit(table: pa.Table) -> pa.Table:
        texts = table["digest"].to_pylist()
        texts[12] = "fx1:" + "1" * 32
        return table.set_column(table.schema.get_field_index("digest"), "digest", pa.array(texts))

    rewrite(tmp_path / "a" / "digests.parquet", edit)
    faults = "\n".join(verify(opened))
    assert "has another digest in digests.parquet" in faults
    assert "do not make the fingerprint" in faults
    assert "SHA-256 must be" in faults


def test_verify_finds_a_capture_set_that_was_edited(tmp_path: Path) -> None:
    text = record(tmp_path / "a").manifest
    (tmp_path / "a" / "manifest.json").write_text(text.replace('"thinned": false', '"thinned": true'))
    assert "manifest.json: the capture set does not fit its digest" in verify(open_record(tmp_path / "a"))


KILLED = """
import os, signal, sys
from record.making import manifest, steps
from foxflow.record import Writer
writer = Writer(sys.argv[1], manifest=manifest())
for step in steps(6, dump=frozenset({1})):
    if step.step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    writer.write(step)
"""


def killed(folder: Path) -> flow.Record:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, folder],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return open_record(folder)


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
