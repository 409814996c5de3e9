"""A manifest that is JSON of the wrong kind, or no UTF-8, is corruption with a name, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foxflow.errors import CorruptRecord
from foxflow.record import Writer, open_record

DECLARED = ("seed", "config", "source", "data", "dataflow", "environment", "arithmetic", "capture", "command")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    values = dict.fromkeys(DECLARED) | {"capture": {"names": None, "thinned": False}}
    Writer(tmp_path / "record", manifest=values).close({})
    return tmp_path / "record" / "manifest.json"


def test_a_manifest_in_another_encoding_is_corrupt(manifest):
    manifest.write_bytes(manifest.read_text().encode("utf-16"))
    with pytest.raises(CorruptRecord, match=r"manifest\.json: must be JSON"):
        open_record(manifest.parent)


@pytest.mark.parametrize("key", ["files", "capture"])
def test_a_manifest_whose_maps_are_numbers_is_corrupt(manifest, key):
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {key: 7}))
    with pytest.raises(CorruptRecord, match=f"{key} must be a map, is int"):
        open_record(manifest.parent)
