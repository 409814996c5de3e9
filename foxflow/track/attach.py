"""Adding files and tags to a run that is over."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow.errors import Mistake
from foxflow.track.store import open_store
from foxflow.track.trouble import trouble

if TYPE_CHECKING:
    from mlflow import MlflowClient


def attach(run_id: str, files: Mapping[str, bytes], tags: Mapping[str, str]) -> str | None:
    """Put files at the root of a run's artifacts and tags on it, in place of those of the same names.

    A store that takes no tags may still take files, and the other way round: both are tried.

    Args:
        run_id: the run, going on or over.
        files: contents by name, e.g. report.html.
        tags: e.g. `foxflow.verdict`.

    Returns:
        Why the store did not take them all; None where it has them. Nothing waits in the spool: the caller can make
        them again.
    """
    try:
        client = open_store().client
    except Mistake as error:
        return str(error)
    said = [_tried(lambda: _send_tags(client, run_id, tags)), _tried(lambda: _send_files(client, run_id, files))]
    return next((why for why in said if why), None)


def _tried(send: Callable[[], None]) -> str | None:
    try:
        send()
    except Exception as error:
        said = trouble(error)
        if said is None:
            raise
        return said.says
    return None


def _send_tags(client: MlflowClient, run_id: str, tags: Mapping[str, str]) -> None:
    for name, value in tags.items():
        client.set_tag(run_id, name, value)


def _send_files(client: MlflowClient, run_id: str, files: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="foxflow-attach-") as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.write_bytes(content)
            client.log_artifact(run_id, str(path))
