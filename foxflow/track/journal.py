"""The spool of a run: everything it tells MLflow lies on this disk before it is sent, until MLflow has all of it.

mlruns/spool/RUN_ID/journal.jsonl holds {"n": 0, "head": …}, then {"n": 1, "metrics": …} and so on, each followed some
time later by {"sent": 1}. A living run, and whoever sends for a dead one, holds a lock on the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foxflow.errors import must

FOLDER = Path("mlruns") / "spool"
NAME, FILES = "journal.jsonl", "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing to tell MLflow: its number in the journal, its kind, and what it says as JSON values."""

    n: int
    kind: str
    value: Any


class Journal:
    """An open journal; `start` begins one, `take` opens a dead run's."""

    def __init__(self, folder: Path, file: Any) -> None:
        self.folder = folder
        self._file = file
        self._lock = threading.Lock()
        self._next, self._waiting = 0, set[int]()
        self.head: dict[str, Any] = {}
        self.touched_ms = 0
        """Of a dead run: when it last wrote."""

    @classmethod
    def start(cls, run_id: str, head: Mapping[str, object]) -> Journal:
        """Begin the journal of a new run in this folder.

        Raises:
            Mistake: it can't be written here.
        """
        folder = FOLDER.absolute() / run_id
        try:
            folder.mkdir(parents=True)
            file = os.fdopen(os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), "a+b")
        except OSError as error:
            raise must(str(FOLDER), "be writable", error.strerror, "Start in a folder of your own.") from error
        fcntl.flock(file, fcntl.LOCK_EX)
        journal = cls(folder, file)
        journal.head = dict(head)
        journal._write({"n": 0, "head": journal.head})
        journal._next = 1
        return journal

    @classmethod
    def take(cls, folder: Path) -> Journal | None:
        """Open the journal of a run that is over; None where the run still lives or another has just sent it."""
        try:
            file = (folder / NAME).open("a+b")
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.path.samestat(os.fstat(file.fileno()), (folder / NAME).stat())
        except OSError:
            there = False
        if not there:
            file.close()
            return None
        journal = cls(folder, file)
        journal.touched_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
        journal._cut()
        for line in journal._lines():
            journal.head = line.get("head", journal.head)
            journal._next = max(journal._next, line.get("n", 0) + 1)
            journal._waiting |= {line["n"]} if line.get("n") else set()
            journal._waiting -= {line.get("sent")}
        return journal

    def append(self, kind: str, value: object) -> Entry:
        """Note something before it is sent."""
        with self._lock:
            entry = Entry(n=self._next, kind=kind, value=value)
            self._write({"n": entry.n, kind: value})
            self._next += 1
            self._waiting.add(entry.n)
        return entry

    def keep(self, name: str, data: bytes) -> Path:
        """Keep a file in the spool, so that it can be sent later whatever becomes of the original."""
        path = self.folder / FILES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def sent(self, entry: Entry) -> None:
        """Note that MLflow has it."""
        with self._lock:
            self._write({"sent": entry.n})
            self._waiting.discard(entry.n)

    def waiting(self) -> list[Entry]:
        """What MLflow may not have, oldest first."""
        with self._lock:
            lines = [line for line in self._lines() if line.get("n") in self._waiting]
        return [Entry(n=line.pop("n"), kind=kind, value=line[kind]) for line in lines for kind in [_kind(line)]]

    def counts(self) -> tuple[int, int]:
        """How many things wait, and how many there are."""
        return len(self._waiting), self._next - 1

    def ended(self) -> bool:
        """Whether the run said how it ended, or had ended before the journal began."""
        return "ended" in self.head or any("end" in line for line in self._lines())

    def remove(self) -> None:
        """Forget the run: MLflow has everything."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._file.close()

    def close(self) -> None:
        """Let go of it; what waits stays on the disk."""
        os.fsync(self._file.fileno())
        self._file.close()

    def _write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def _cut(self) -> None:
        """Take off a last line that a killed process did not finish."""
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)

    def _lines(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        for line in self._file.read().splitlines():
            yield json.loads(line)


def _kind(line: Mapping[str, Any]) -> str:
    return next(key for key in line if key != "n")
