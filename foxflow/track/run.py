"""One run in MLflow while it happens: parameters, metrics in the background, its record and tags at the end.

All of it goes through the run's journal, so that a store that goes away costs nothing: `foxflow sync` sends the rest.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from foxflow.errors import must
from foxflow.flow import Record, manifest_digest
from foxflow.track.checksums import table
from foxflow.track.curves import Curves
from foxflow.track.journal import FOLDER, Journal
from foxflow.track.outbox import Outbox
from foxflow.track.process import TAG, mark_killed, process
from foxflow.track.store import Store, in_one_line, open_store
from foxflow.track.trouble import public
from foxflow.track.twins import Search, Twin, checked


def open_run(name: str | None, params: Mapping[str, object], tags: Mapping[str, str]) -> Tracked:
    """Start a run in the store of this folder; runs of this machine whose process died are marked KILLED first.

    Args:
        name: the run's name; None lets MLflow choose one.
        params: the config; nested maps become dotted names, anything but text is written as JSON.
        tags: e.g. `foxflow.identity`, `foxflow.clean`, git commit, torch and device versions.

    Raises:
        Mistake: the store can't be opened or written: nothing has been computed yet, so nothing is lost.
    """
    opened = open_store()
    mine = {TAG: process(os.getpid()) or "", **tags}
    with in_one_line(opened.uri):
        mark_killed(opened)
        run = opened.client.create_run(opened.experiment_id, run_name=name, tags=_texts(mine))
    tracked = Tracked(opened, run.info.run_id, run.info.run_name, run.info.artifact_uri)
    tracked.params(params)
    tracked.must_be_well()
    return tracked


class Tracked:
    """A run being tracked; as a context manager it ends the run as FAILED, or KILLED on an interrupt, if left early.

    `metrics` only appends; a thread sends. Non-finite values are not sent
    (MLflow would store an infinity as 1.8e308), nor is None: the tag `foxflow.metrics_skipped` counts them.
    """

    def __init__(self, store: Store, run_id: str, name: str, artifact_uri: str) -> None:
        self.run_id, self.name = run_id, name
        self.record_folder = local_folder(artifact_uri, "record")
        """Where the record may be written at once, so that nothing is copied; None on a remote artifact store."""
        self.twin: Twin | None = None
        """What `look_for_twin` found; after `close`."""
        self.unsent: str | None = None
        """After `close`: why something waits in the spool, and how to send it; None where MLflow has everything."""
        self._store = store
        head = {"store": public(store.uri), "experiment": store.experiment_id, "name": name}
        self._outbox = Outbox(store, run_id, Journal.start(run_id, head))
        self._curves = Curves(self._outbox)
        self._ended = False

    def metrics(self, step: int, values: Mapping[str, float | None]) -> None:
        """Note a step's losses and other numbers; returns at once."""
        self._curves.add(step, values)

    def params(self, values: Mapping[str, object]) -> None:
        """Log parameters, 100 a batch."""
        self._outbox.put_texts("params", _texts(_flat(values)))

    def tag(self, values: Mapping[str, object]) -> None:
        """Set tags, 100 a batch; None is left out."""
        self._outbox.put_texts("tags", _texts(values))

    def data(self, name: str, seal: str, facts: Mapping[str, object]) -> None:
        """Log what the run learnt from, as MLflow's dataset input.

        Args:
            name: e.g. a file's name, or "synthetic".
            seal: SHA-256 in hex; MLflow's digest is its first 32 digits.
            facts: of its source, e.g. seals of its files, or seed and generator.
        """
        source = json.dumps(facts, sort_keys=True)
        self._outbox.put("data", {"name": name, "digest": seal[:32], "source_type": "foxflow", "source": source})

    def file(self, path: str | Path) -> None:
        """Add a file at the root of the run's artifacts, e.g. report.html."""
        kept = self._outbox.journal.keep(Path(path).name, Path(path).read_bytes())
        self._outbox.put("file", {"path": str(kept), "below": None})

    def look_for_twin(self, identity: str, fingerprint: str | None) -> None:
        """Find the earlier run that this one reproduces or departs from, and tag this one with it."""
        wanted = checked(Search(identity=identity, fingerprint=fingerprint, ended_by_ms=_now_ms()))
        value = {"identity": wanted.identity, "fingerprint": fingerprint, "ended_by_ms": wanted.ended_by_ms}
        self._outbox.put("twin", value)

    def must_be_well(self) -> None:
        """At the start of a run: end it as FAILED if the store did not take its parameters.

        Raises:
            Mistake: it did not.
        """
        if not self._outbox.off:
            return
        said = next(iter(self._outbox.off.values()))
        self._outbox.off.clear()
        self._curves.close()
        self._outbox.put("end", {"status": "FAILED", "at_ms": _now_ms()})
        self._outbox.journal.remove()
        raise must(f"the MLflow store {public(self._store.uri)}", "take the parameters of a run", said.says)

    def close(self, record: Record | None, status: str = "FINISHED") -> None:
        """Send what is left, add the record, `checksums.json` and the record's tags, and end the run.

        What the store does not take stays in the spool; `unsent` says so.

        Args:
            record: the run's record, complete or not; None where none was made.
            status: FINISHED, FAILED or KILLED.

        Raises:
            Mistake: the store is well and refuses metrics, e.g. for their names; the run is then FAILED.
        """
        if self._ended:
            return
        try:
            self._flush()
            if record is not None:
                self._add(record)
        except BaseException:
            self._end("FAILED")
            raise
        invalid = self._outbox.off.get("metrics")
        self._end("FAILED" if invalid and invalid.invalid else status)
        if invalid and invalid.invalid:
            raise must(
                f"the store of run {self.run_id}", "take its metrics", invalid.says, f"They are kept in {FOLDER}."
            )

    def __enter__(self) -> Tracked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None or self._ended:
            return
        self._flush()
        self._end("FAILED" if issubclass(kind, Exception) else "KILLED")

    def _end(self, status: str) -> None:
        self._ended = True
        self._outbox.put("end", {"status": status, "at_ms": _now_ms()})
        if self._outbox.off:
            self._outbox.send_waiting()
        self.unsent, self.twin = self._outbox.settle(), self._outbox.twin

    def _flush(self) -> None:
        self._curves.close()
        if self._curves.skipped:
            self.tag({"foxflow.metrics_skipped": self._curves.skipped})

    def _add(self, record: Record) -> None:
        manifest = json.loads(record.manifest)
        self.tag(
            {
                "foxflow.fingerprint": manifest.get("fingerprint"),
                "foxflow.seed": manifest.get("seed"),
                "foxflow.manifest": manifest_digest(record),
                "foxflow.complete": record.complete,
            }
        )
        folder = Path(record.path).resolve()
        if self.record_folder is None or folder != self.record_folder.resolve():
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                below = (Path("record") / path.relative_to(folder).parent).as_posix()
                self._outbox.put("file", {"path": str(path), "below": below})
        self._outbox.put("table", str(self._outbox.journal.keep("checksums.json", table(record))))


def local_folder(artifact_uri: str, below: str) -> Path | None:
    """A folder below a run's artifacts where these lie on this machine's disk, else None."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path)) / below
    return None if parts.scheme else Path(artifact_uri) / below


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in values.items():
        out.update(_flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value})
    return out


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in values.items() if v is not None}
