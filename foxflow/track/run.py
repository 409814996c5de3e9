"""One run in MLflow while it happens: parameters, metrics in the background, its record and tags at the end."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from foxflow.errors import must
from foxflow.flow import Record, manifest_digest
from foxflow.track.checksums import table
from foxflow.track.store import Store, in_one_line, open_store

BATCH = 1000
"""Metrics in one `log_batch`, MLflow's own limit; parameters and tags have 100."""

EVERY_S = 5.0
"""Pause between two sendings: MLflow's Python work shares the interpreter with the training loop."""

_Point = tuple[int, int, dict[str, float | None]]


def open_run(name: str | None, params: Mapping[str, object], tags: Mapping[str, str]) -> Tracked:
    """Start a run in the store of this folder; runs of this machine whose process died are marked KILLED first.

    Args:
        name: the run's name; None lets MLflow choose one.
        params: the config; nested maps become dotted names, anything but text is written as JSON.
        tags: e.g. `foxflow.identity`, `foxflow.clean`, git commit, torch and device versions.

    Raises:
        Mistake: the store can't be opened or written.
    """
    opened = open_store()
    mine = {"foxflow.process": _process(os.getpid()) or "", **tags}
    with in_one_line(opened.uri):
        _mark_killed(opened)
        run = opened.client.create_run(opened.experiment_id, run_name=name, tags=_texts(mine))
        tracked = Tracked(opened, run.info.run_id, run.info.run_name, run.info.artifact_uri)
        tracked.params(params)
    return tracked


class Tracked:
    """A run being tracked; as a context manager it ends the run as FAILED, or KILLED on an interrupt, if left early.

    `metrics` only appends; one thread sends batches of up to 1000. Non-finite values are not sent
    (MLflow would store an infinity as 1.8e308), nor is None: the tag `foxflow.metrics_skipped` counts them.
    """

    def __init__(self, store: Store, run_id: str, name: str, artifact_uri: str) -> None:
        self.run_id, self.name = run_id, name
        self.record_folder = local_folder(artifact_uri, "record")
        """Where the record may be written at once, so that nothing is copied; None on a remote artifact store."""
        self._store = store
        self._points: deque[_Point] = deque()
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._skipped = 0
        self._ended = False
        self._sender = threading.Thread(target=self._send, name="foxflow-metrics", daemon=True)
        self._sender.start()

    def metrics(self, step: int, values: Mapping[str, float | None]) -> None:
        """Note a step's losses and other numbers; returns at once."""
        self._points.append((step, time.time_ns() // 1_000_000, dict(values)))

    def params(self, values: Mapping[str, object]) -> None:
        """Log parameters, 100 a batch."""
        from mlflow.entities import Param

        pairs = [Param(key, value) for key, value in _texts(_flat(values)).items()]
        for at in range(0, len(pairs), 100):
            self._store.client.log_batch(self.run_id, params=pairs[at : at + 100])

    def tag(self, values: Mapping[str, object]) -> None:
        """Set tags, 100 a batch; None is left out."""
        from mlflow.entities import RunTag

        pairs = [RunTag(key, value) for key, value in _texts(values).items()]
        for at in range(0, len(pairs), 100):
            self._store.client.log_batch(self.run_id, tags=pairs[at : at + 100])

    def file(self, path: str | Path) -> None:
        """Add a file at the root of the run's artifacts, e.g. report.html."""
        self._store.client.log_artifact(self.run_id, str(path))

    def close(self, record: Record | None, status: str = "FINISHED") -> None:
        """Send what is left, add the record, `checksums.json` and the record's tags, and end the run.

        Args:
            record: the run's record, complete or not; None where none was made.
            status: FINISHED, FAILED or KILLED.

        Raises:
            Mistake: the store refused a batch of metrics or the record; the run is then FAILED, its record is kept.
        """
        if self._ended:
            return
        try:
            with in_one_line(self._store.uri):
                self._flush()
                if record is not None:
                    self._add(record)
        except BaseException:
            self._end("FAILED")
            raise
        self._end("FAILED" if self._failure else status)
        if self._failure:
            said = str(self._failure).strip().splitlines()[0]
            raise must(f"the store of run {self.run_id}", "take its metrics", said, "The record is complete without.")

    def __enter__(self) -> Tracked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None or self._ended:
            return
        self._flush()
        self._end("FAILED" if issubclass(kind, Exception) else "KILLED")

    def _end(self, status: str) -> None:
        self._ended = True
        self._store.client.set_terminated(self.run_id, status=status)

    def _flush(self) -> None:
        self._closing.set()
        self._sender.join()
        if self._skipped:
            self.tag({"foxflow.metrics_skipped": self._skipped})

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
        if self.record_folder is None or Path(record.path).resolve() != self.record_folder.resolve():
            self._store.client.log_artifacts(self.run_id, record.path, "record")
        self._store.client.log_table(self.run_id, table(record), "checksums.json")

    def _send(self) -> None:
        """Runs in the thread. After the first refusal nothing more is sent; `close` says so."""
        try:
            while not self._closing.wait(EVERY_S):
                self._send_waiting()
            self._send_waiting()
        except Exception as error:
            self._failure = error

    def _send_waiting(self) -> None:
        from mlflow.entities import Metric

        waiting: list[Metric] = []
        while self._points:
            step, at, values = self._points.popleft()
            sound = [Metric(k, float(v), at, step) for k, v in values.items() if v is not None and math.isfinite(v)]
            self._skipped += len(values) - len(sound)
            waiting += sound
        for at in range(0, len(waiting), BATCH):
            self._store.client.log_batch(self.run_id, metrics=waiting[at : at + BATCH], synchronous=True)


def local_folder(artifact_uri: str, below: str) -> Path | None:
    """A folder below a run's artifacts where these lie on this machine's disk, else None."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path)) / below
    return None if parts.scheme else Path(artifact_uri) / below


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in values.items():
        out.update(_flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value})
    return out


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in values.items() if v is not None}


def _process(pid: int) -> str | None:
    """Host, pid and start time of a living process, so that a pid used again is not taken for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{socket.gethostname()}:{pid}:{fields[19]}"


def _mark_killed(store: Store) -> None:
    here = socket.gethostname()
    for run in store.client.search_runs([store.experiment_id], "attributes.status = 'RUNNING'"):
        host, _, rest = run.data.tags.get("foxflow.process", "").partition(":")
        pid = rest.partition(":")[0]
        if host == here and pid and _process(int(pid)) != run.data.tags["foxflow.process"]:
            store.client.set_terminated(run.info.run_id, status="KILLED")
