"""Writing a record while the run goes on, so that a killed run leaves all that it had written."""

from __future__ import annotations

import functools
import json
import math
import os
import time
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from foxflow import digest, flow
from foxflow.errors import CorruptRecord, must
from foxflow.record import files, layout
from foxflow.record.reader import open_record, running_batches

SYNC_SECONDS = 1.0
LARGEST_DUMP_BYTES = 2**31 - 1


class Writer:
    """Writes one record; left as a context manager without `close`, it is an incomplete one.

    Args:
        folder: made if absent; refused if it holds a record already.
        manifest: JSON values under `seed`, `config`, `source`, `data`, `dataflow`, `environment`, `arithmetic` and
            `capture`. `capture` is {"names": buffer names that make the fingerprint, or None for all recorded,
            "thinned": True where steps were left out by time, so that there is no fingerprint}.
        rank: the process's number in a run over several.

    Raises:
        Mistake: the folder holds a record, or the manifest lacks a key or has an unknown one.
    """

    def __init__(self, folder: str | Path, *, manifest: dict[str, Any], rank: int = 0) -> None:
        self._folder, self._manifest, self._rank = Path(folder), _checked(manifest), rank
        capture = self._manifest["capture"]
        self._names: dict[str, None] = dict.fromkeys(capture.get("names") or ())
        self._all_names, self._thinned = capture.get("names") is None, bool(capture.get("thinned", False))
        self._fold, self._rows, self._captured = digest.Fold(), 0, 0
        self._ranges: list[list[Any]] = []
        self._start()

    def _start(self) -> None:
        found = [name for name in (layout.MANIFEST, layout.DIGESTS, layout.RUNNING) if (self._folder / name).exists()]
        if found:
            raise must(str(self._folder), "hold no record yet", found[0], "Choose another folder; records are kept.")
        (self._folder / layout.BUFFERS).mkdir(parents=True, exist_ok=True)
        files.write_bytes(self._folder / layout.MANIFEST, self._text(complete=False, fingerprint=None, sealed={}))
        self._digests_file = (self._folder / layout.RUNNING).open("xb")
        self._digests = pa.ipc.new_stream(
            self._digests_file, layout.COLUMNS, options=pa.ipc.IpcWriteOptions(compression="lz4")
        )
        self._diag: Any = None
        self._synced = time.monotonic()

    def write(self, step: flow.Step) -> None:
        """Append a step: its digests and its diag line, and its dump as a file of its own.

        Raises:
            Mistake: the step comes out of order, twice, or with a buffer that contradicts itself.
        """
        self._check(step)
        dumped = [b for b in step.buffers if b.data is not None]
        if dumped:
            self._dump(step, dumped)
        columns = layout.rows(step, self._rank, step.buffers)
        self._digests.write_batch(pa.record_batch(columns, schema=layout.COLUMNS))
        self._digests_file.flush()
        if step.diag is not None:
            self._append_diag(step.diag)
        self._count(step)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._digests_file.fileno())
            self._synced = time.monotonic()

    def _check(self, step: flow.Step) -> None:
        where = f"{step.phase} step {step.step}"
        if step.phase not in layout.PHASES:
            raise must("phase", f"be one of {', '.join(layout.PHASES)}", repr(step.phase))
        if self._ranges:
            phase, _, stop = self._ranges[-1]
            if (layout.PHASES.index(step.phase), step.step) < (layout.PHASES.index(phase), stop):
                raise must(
                    where, f"come after {phase} step {stop - 1}", "it later", "Write train, eval, final, ascending."
                )
        if len({(b.k, b.buffer) for b in step.buffers}) < len(step.buffers):
            names = [(b.buffer, b.k) for b in step.buffers]
            twice = next(name for name in names if names.count(name) > 1)
            raise must(where, "hold each buffer once per k", f"{twice[0]} (k {twice[1]}) twice", "Number them by k.")
        if not digest.all_well_formed([b.digest for b in step.buffers]) or not all(map(_whole, step.buffers)):
            for b in step.buffers:
                if (fault := _fault(b)) is not None:
                    raise must(f"{where}, buffer {b.buffer}", *fault)

    def _dump(self, step: flow.Step, dumped: list[flow.Captured]) -> None:
        with (
            files.whole(self._folder / layout.dump_name(step.phase, step.step)) as fresh,
            files.parquet(fresh, layout.DUMP_COLUMNS) as out,
        ):
            held: list[flow.Captured] = []
            for b in dumped:
                if held and sum(h.nbytes for h in held) + b.nbytes > files.DUMP_GROUP_BYTES:
                    out.write_table(self._table(step, held))
                    held = []
                held.append(b)
            out.write_table(self._table(step, held))

    def _table(self, step: flow.Step, buffers: list[flow.Captured]) -> Any:
        columns: list[Any] = [*layout.rows(step, self._rank, buffers), [b.data for b in buffers]]
        return pa.table(
            [pa.array(values, field.type) for values, field in zip(columns, layout.DUMP_COLUMNS, strict=True)],
            schema=layout.DUMP_COLUMNS,
        )

    def _append_diag(self, line: str) -> None:
        if self._diag is None:
            self._diag = (self._folder / layout.DIAG).open("xb")
        self._diag.write(line.encode() + b"\n")
        self._diag.flush()

    def _count(self, step: flow.Step) -> None:
        if self._all_names:
            self._names |= dict.fromkeys(b.buffer for b in step.buffers if b.buffer not in self._names)
            digests = [b.digest for b in step.buffers]
        else:
            digests = [b.digest for b in step.buffers if b.buffer in self._names]
        self._fold.add(digests)
        self._captured += len(digests)
        self._rows += len(step.buffers)
        if self._ranges and self._ranges[-1][0] == step.phase and self._ranges[-1][2] == step.step:
            self._ranges[-1][2] += 1
        else:
            self._ranges.append([step.phase, step.step, step.step + 1])

    def _capture(self) -> dict[str, Any]:
        declared = {"names": list(self._names), "steps": self._ranges, "rows": self._captured, "thinned": self._thinned}
        text = layout.canonical(declared).encode()
        return {**declared, "digest": digest.digest(text, "u8", (len(text),))}

    def fingerprint(self) -> str | None:
        """The fingerprint of what was written so far; None where the recording is thinned by time or empty."""
        return None if self._thinned or not self._captured else self._fold.result(self._capture()["digest"])

    def close(self, summaries: dict[str, bytes]) -> flow.Record:
        """Seal the record.

        Args:
            summaries: file name -> contents, e.g. eval_summary.json.

        Returns:
            The complete record.

        Raises:
            CorruptRecord: what was written is no longer all there.
        """
        if self._diag is not None:
            os.fsync(self._diag.fileno())
        self.abandon()
        with files.whole(self._folder / layout.DIGESTS) as fresh:
            kept = files.stream_to_parquet(running_batches(self._folder / layout.RUNNING), fresh)
            if kept != self._rows:
                raise CorruptRecord(str(self._folder), layout.RUNNING, f"must hold {self._rows} rows, has {kept}")
        for name, data in summaries.items():
            files.write_bytes(self._folder / name, data)
        listed = [layout.DIGESTS, *([layout.DIAG] if self._diag is not None else []), *summaries]
        listed += [f"{layout.BUFFERS}/{p.name}" for p in sorted((self._folder / layout.BUFFERS).glob("*.parquet"))]
        sealed = {name: files.sha256(self._folder / name) for name in listed}
        self._manifest["capture"] = self._capture()
        text = self._text(complete=True, fingerprint=self.fingerprint(), sealed=sealed)
        files.write_bytes(self._folder / layout.MANIFEST, text)
        (self._folder / layout.RUNNING).unlink()
        return open_record(self._folder)

    def abandon(self) -> None:
        """Let go of the files without sealing them: what was written stays as an incomplete record."""
        if self._digests_file.closed:
            return
        self._digests.close()
        self._digests_file.close()
        if self._diag is not None:
            self._diag.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _text(self, *, complete: bool, fingerprint: str | None, sealed: dict[str, str]) -> bytes:
        fixed = {"schema": layout.SCHEMA_VERSION, "digest": digest.SCHEME}
        found = {"rows": self._rows if complete else None, "fingerprint": fingerprint, "files": sealed}
        whole = {**fixed, **self._manifest, **found, "complete": complete}
        return (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()


def _checked(manifest: dict[str, Any]) -> dict[str, Any]:
    unlike = set(manifest) ^ set(layout.DECLARED)
    if unlike:
        raise must("manifest", f"hold {', '.join(layout.DECLARED)}", f"a difference in {', '.join(sorted(unlike))}")
    if not isinstance(manifest["capture"], dict):
        raise must("manifest capture", "be a map with names and thinned", repr(manifest["capture"]))
    return {key: manifest[key] for key in layout.DECLARED}


def _whole(b: flow.Captured) -> bool:
    """Whether a buffer has as many bytes as its dtype and shape say, and not too many to dump."""
    if b.nbytes != _size(b.dtype, b.shape):
        return False
    return b.data is None or len(b.data) == b.nbytes <= LARGEST_DUMP_BYTES


@functools.lru_cache(maxsize=65536)
def _size(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a buffer; None for an unknown dtype."""
    return math.prod(shape) * digest.DTYPES[dtype][1] if dtype in digest.DTYPES else None


def _fault(b: flow.Captured) -> tuple[str, object, str] | None:
    """What is wrong with a buffer, as rule, value and advice."""
    if b.dtype not in digest.DTYPES:
        return f"have a dtype of {', '.join(digest.DTYPES)}", b.dtype, "Log its raw bits as integers."
    if not digest.well_formed(b.digest):
        return "have a digest of fx1: and 32 hex digits", b.digest, "Make it with foxflow.digest."
    held = b.nbytes if b.data is None else len(b.data)
    if not _size(b.dtype, b.shape) == b.nbytes == held:
        return f"hold {_size(b.dtype, b.shape)} bytes for {b.dtype} {list(b.shape)}", held, "Copy it contiguous."
    if not _whole(b):
        return "be under 2 GiB to be dumped", f"{b.nbytes} bytes", "Leave it out of the dump; its digest is kept."
    return None
