"""Writing a record while the run goes on, so that a killed run leaves all that it had written."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from foxflow import digest, flow
from foxflow.errors import CorruptRecord, Mistake, must
from foxflow.record import files, layout
from foxflow.record.dumps import DumpFile
from foxflow.record.forms import Form, Forms, check_bytes
from foxflow.record.reader import open_record, running_batches

FLUSH_SECONDS = 1.0


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
        self._folder, self._manifest = Path(folder), _checked(manifest)
        capture = self._manifest["capture"]
        self._names: dict[str, None] = dict.fromkeys(capture.get("names") or ())
        self._all_names, self._thinned = capture.get("names") is None, bool(capture.get("thinned", False))
        self._fold, self._rows, self._captured = digest.Fold(), 0, 0
        self._ranges: list[list[Any]] = []
        self._forms = Forms(None if self._all_names else self._names, rank)
        self._start()

    def _start(self) -> None:
        found = [name for name in (layout.MANIFEST, layout.DIGESTS, layout.RUNNING) if (self._folder / name).exists()]
        if found:
            raise must(str(self._folder), "hold no record yet", found[0], "Choose another folder; records are kept.")
        (self._folder / layout.BUFFERS).mkdir(parents=True, exist_ok=True)
        files.write_bytes(self._folder / layout.MANIFEST, self._text(complete=False, fingerprint=None, sealed={}))
        self._digests_file = (self._folder / layout.RUNNING).open("xb")
        self._digests_file.write(layout.RUNNING_COLUMNS.serialize())
        self._diag: Any = None
        self._flush, self._flushed = files.Flush(self._folder / layout.RUNNING), time.monotonic()

    def write(self, step: flow.Step) -> None:
        """Append a step: its digests and its diag line, and its dump as a file of its own.

        Raises:
            Mistake: the step comes out of order, twice, or with a buffer that contradicts itself.
        """
        where, buffers = self._next(step), flow.Buffers.of(step.buffers)
        try:
            form = self._forms.of(buffers.columns)
            check_bytes(buffers)
        except Mistake as error:
            raise Mistake(f"{where}, {error}") from None
        if buffers.data is not None:
            self._dump(step, form, buffers)
        rows = None if form.written else form.rows
        self._digests_file.write(layout.running(step.phase, step.step, buffers.digests, form.number, rows))
        self._digests_file.flush()
        if step.diag is not None:
            self._append_diag(step.diag)
        self._count(step, form, buffers)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._flush.start()
            self._flushed = time.monotonic()

    def _next(self, step: flow.Step) -> str:
        """The step in words, once it is known to come after the last one."""
        where = f"{step.phase} step {step.step}"
        if step.phase not in layout.PHASES:
            raise must("phase", f"be one of {', '.join(layout.PHASES)}", repr(step.phase))
        if self._ranges:
            phase, _, stop = self._ranges[-1]
            if (layout.PHASES.index(step.phase), step.step) < (layout.PHASES.index(phase), stop):
                raise must(
                    where, f"come after {phase} step {stop - 1}", "it later", "Write train, eval, final, ascending."
                )
        return where

    def _dump(self, step: flow.Step, form: Form, buffers: flow.Buffers) -> None:
        rows, data = layout.rows(form.rows, step.phase, step.step, buffers.digests), buffers.data or ()
        dumped = [i for i, copy in enumerate(data) if copy is not None]
        with (
            files.whole(self._folder / layout.dump_name(step.phase, step.step), sync_name=False) as fresh,
            fresh.open("xb") as file,
            contextlib.closing(files.Flush(fresh)) as flush,
            contextlib.closing(DumpFile(file, flush.start)) as out,
        ):
            for group in files.dump_groups(dumped, buffers.columns.nbytes):
                out.write(rows.take(group), [data[i] or b"" for i in group])

    def _append_diag(self, line: str) -> None:
        if self._diag is None:
            self._diag = (self._folder / layout.DIAG).open("xb")
        self._diag.write(line.encode() + b"\n")
        self._diag.flush()

    def _count(self, step: flow.Step, form: Form, buffers: flow.Buffers) -> None:
        counted = buffers.digests
        if form.counted is not None:
            counted = np.frombuffer(counted, "V16")[form.counted].tobytes()
        elif self._all_names and not form.written:
            self._names |= dict.fromkeys(buffers.columns.buffer)
        form.written = True
        self._fold.add(counted)
        self._captured += len(counted) // 16
        self._rows += len(form.rows)
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
        files.sync_folder(self._folder / layout.BUFFERS)
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
        self._flush.close()
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
