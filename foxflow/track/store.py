"""Where runs are kept: the MLflow store of this folder or of MLFLOW_TRACKING_URI, made once and safely."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow.errors import Mistake, must
from foxflow.track.trouble import public, trouble

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "foxflow"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""MLflow sends nothing home and prints nothing of its own; it reads some of these once, at import."""

RETRIES = "3"
"""Of a request to a server that is away: half a minute, not MLflow's four, unless the caller says otherwise."""

_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """An open store: its client, its address and the experiment that new runs join."""

    uri: str
    client: MlflowClient
    experiment_id: str


def store() -> str:
    """Say where runs are kept, without opening or making anything.

    Returns:
        MLFLOW_TRACKING_URI where it is set, else the SQLite file mlruns/mlflow.db of the current folder.

    Raises:
        Mistake: the address is a `file:` store or a plain folder, or can't be written as a SQLite address.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip() or f"{_SQLITE}{Path.cwd() / 'mlruns' / 'mlflow.db'}"
    if uri.startswith("file:") or ":" not in uri:
        raise must(
            "MLFLOW_TRACKING_URI",
            "be a database or a server",
            f"the folder {uri}",
            "Write sqlite:///path/mlflow.db, or unset it for mlruns/mlflow.db.",
        )
    if uri.startswith(_SQLITE) and re.search("[%?]", uri):
        raise must("the path of a SQLite store", "hold no '%' or '?'", uri, "Set MLFLOW_TRACKING_URI to another.")
    return uri


def open_store() -> Store:
    """Open the store that `store` names and make what is missing, under a file lock.

    Any number of processes may start at once on a fresh folder. The experiment is MLFLOW_EXPERIMENT_NAME, else
    "foxflow".

    Raises:
        Mistake: it can't be opened or written; nothing half-made is left behind.
    """
    uri = store()
    file = _file(uri)
    with in_one_line(uri), _locked(file.parent if file else None):
        if file:
            if not file.exists():
                _migrate(file)
            _probe(file, "BEGIN IMMEDIATE")
        client = _client(uri)
        return _experiment(uri, client) or _new_experiment(uri, client, file.parent if file else None)


def find_client() -> MlflowClient | None:
    """Open the store that `store` names if it is there; makes nothing.

    Raises:
        Mistake: it is there and can't be opened.
    """
    uri = store()
    file = _file(uri)
    if file and not file.exists():
        return None
    with in_one_line(uri):
        if file:
            _probe(file, "PRAGMA schema_version")
        return _client(uri)


def find_store() -> Store | None:
    """As `find_client`, with the experiment; None where the experiment isn't there.

    Raises:
        Mistake: the store can't be opened, or the experiment is deleted.
    """
    client = find_client()
    if client is None:
        return None
    with in_one_line(store()):
        return _experiment(store(), client)


def store_at(uri: str, experiment_id: str) -> Store:
    """A store that is known to be there, e.g. the one of a run whose journal waits."""
    return Store(uri=uri, client=_client(uri), experiment_id=experiment_id)


def _file(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


def _client(uri: str) -> MlflowClient:
    os.environ.update(QUIET)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def _experiment_name() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME", "").strip() or EXPERIMENT


def _experiment(uri: str, client: MlflowClient) -> Store | None:
    name = _experiment_name()
    found = client.get_experiment_by_name(name)
    if found is None:
        return None
    if found.lifecycle_stage != "active":
        raise must("the experiment", "be active", f"{name}, deleted", "Restore it or set MLFLOW_EXPERIMENT_NAME.")
    return Store(uri=uri, client=client, experiment_id=found.experiment_id)


def _new_experiment(uri: str, client: MlflowClient, folder: Path | None) -> Store:
    from mlflow.exceptions import MlflowException

    name = _experiment_name()
    place = (folder.absolute() / re.sub(r"[^\w.-]", "_", name)).as_uri() if folder else None
    try:
        return Store(uri=uri, client=client, experiment_id=client.create_experiment(name, artifact_location=place))
    except MlflowException:
        made_meanwhile = _experiment(uri, client)
        if made_meanwhile is None:
            raise
        return made_meanwhile


def _migrate(file: Path) -> None:
    """Make the database beside its place and rename it there: a killed process leaves no half-migrated store."""
    os.environ.update(QUIET)
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        made = SqlAlchemyStore(f"{_SQLITE}{fresh}", file.parent.absolute().as_uri())
        made.engine.dispose()
        fresh.rename(file)
    finally:
        fresh.unlink(missing_ok=True)


def _probe(file: Path, statement: str) -> None:
    """MLflow would retry a broken file for minutes; SQLite knows at once. Closing rolls back what was begun."""
    with closing(sqlite3.connect(file, timeout=20, isolation_level=None)) as db:
        db.execute(statement)


@contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """Servers arbitrate by themselves; a SQLite store has a lock file beside it."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".mlflow.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def in_one_line(uri: str) -> Iterator[None]:
    """Turn what MLflow, SQLite and the file system raise into one line that names the store."""
    try:
        yield
    except Mistake:
        raise
    except Exception as error:
        found = trouble(error)
        if found is None:
            raise
        store = f"the MLflow store {public(uri)}"
        raise must(store, "open and be writable", found.says, "Mend it or set MLFLOW_TRACKING_URI.") from error
