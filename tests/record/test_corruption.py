"""A record that is none, or that contradicts itself, is named as such."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from record.making import record, rewrite, steps

from foxflow import flow
from foxflow.errors import CorruptRecord, Mistake, NoRecord
from foxflow.record import manifest_digest, open_record, verify


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


def test_verify_finds_a_malformed_digest(tmp_path: Path) -> None:
    opened = record(tmp_path / "a")

    def cut(table: pa.Table) -> pa.Table:
        texts = table["digest"].to_pylist()
        texts[3] = None
        return table.set_column(table.schema.get_field_index("digest"), "digest", pa.array(texts))

    rewrite(tmp_path / "a" / "digests.parquet", cut)
    assert "digests.parquet: each digest must be fx1: and 32 hex digits" in verify(opened)
