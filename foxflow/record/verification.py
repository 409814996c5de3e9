"""Does a record contradict itself? Every seal, every dump against its digest, the fingerprint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foxflow import digest, flow
from foxflow.errors import CorruptRecord
from foxflow.record import files, layout

Place = tuple[str, int, int | None, int, str]


def verify(record: flow.Record) -> tuple[str, ...]:
    """List every contradiction of a record with itself.

    An incomplete record has no seals; its dumps are checked all the same.

    Args:
        record: from `open_record`.

    Returns:
        One sentence each, beginning with the file; empty for a sound record.
    """
    manifest = json.loads(record.manifest)
    found = list(_broken_seals(Path(record.path), manifest["files"]))
    dumped: dict[Place, str] = {}
    for phase, step in record.dump_steps:
        found += _attempt(_broken_dump(record, phase, step, dumped))
    return (*found, *_attempt(_broken_digests(record, manifest, dumped)))


def _attempt(sentences: Iterator[str]) -> list[str]:
    """All sentences, and the reason in words where a file can't be read on."""
    found = []
    try:
        for sentence in sentences:
            found.append(sentence)
    except CorruptRecord as error:
        found.append(f"{error.where}: {error.why}")
    return found


def _broken_seals(folder: Path, sealed: dict[str, str]) -> Iterator[str]:
    for name, seal in sealed.items():
        if not (folder / name).is_file():
            yield f"{name}: is listed in the manifest, not there"
        elif (got := files.sha256(folder / name)) != seal:
            yield f"{name}: SHA-256 must be {seal}, got {got}"


def _places(batch: Any) -> Iterator[tuple[Place, str]]:
    names = ("phase", "step", "k", "rank", "buffer", "digest")
    phase, step, k, rank, buffer, text = (batch.column(name).to_pylist() for name in names)
    for *place, digested in zip(phase, step, k, rank, buffer, text, strict=True):
        yield (place[0], place[1], place[2], place[3], place[4]), digested


def _broken_dump(record: flow.Record, phase: str, step: int, dumped: dict[Place, str]) -> Iterator[str]:
    name = layout.dump_name(phase, step)
    for batch in record.dump(phase, step):
        dtypes, shapes = batch.column("dtype").to_pylist(), batch.column("shape").to_pylist()
        for i, (place, stated) in enumerate(_places(batch)):
            data = batch.column("data")[i].as_buffer()
            got = digest.digest(data, dtypes[i], tuple(json.loads(shapes[i])))
            dumped[place] = stated
            if got != stated:
                yield f"{name}: {place[4]} must have digest {stated}, its bytes have {got}"


def _broken_digests(record: flow.Record, manifest: dict[str, Any], dumped: dict[Place, str]) -> Iterator[str]:
    capture, whole = manifest["capture"], digest.Fold()
    names = set(capture.get("names") or ())
    for batch in record.digests():
        texts, buffers = batch.column("digest").to_pylist(), batch.column("buffer").to_pylist()
        if not digest.all_well_formed([str(text) for text in texts]):
            yield f"{layout.DIGESTS}: each digest must be fx1: and 32 hex digits"
            return
        whole.add(digest.raw(text for text, buffer in zip(texts, buffers, strict=True) if buffer in names))
        if dumped:
            yield from _departures(batch, dumped)
    if record.complete:
        stated = {key: value for key, value in capture.items() if key != "digest"}
        text = layout.canonical(stated).encode()
        if capture["digest"] != digest.digest(text, "u8", (len(text),)):
            yield f"{layout.MANIFEST}: the capture set does not fit its digest"
        if manifest["fingerprint"] not in (None, whole.result(capture["digest"])):
            yield f"{layout.DIGESTS}: its digests do not make the fingerprint {manifest['fingerprint']}"


def _departures(batch: Any, dumped: dict[Place, str]) -> Iterator[str]:
    for place, stated in _places(batch):
        if dumped.get(place, stated) != stated:
            yield f"{layout.dump_name(place[0], place[1])}: {place[4]} has another digest in {layout.DIGESTS}, {stated}"
