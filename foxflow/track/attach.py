"""Adding files to a run that is over."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from foxflow.track.store import open_store
from foxflow.track.trouble import trouble


def attach(run_id: str, files: Mapping[str, bytes]) -> str | None:
    """Put files at the root of a run's artifacts, in place of those of the same names.

    Args:
        run_id: the run, going on or over.
        files: contents by name, e.g. report.html.

    Returns:
        Why the store did not take them all; None where it has them. Nothing waits in the spool: the caller can make
        them again.
    """
    try:
        client = open_store().client
        with tempfile.TemporaryDirectory(prefix="foxflow-attach-") as folder:
            for name, content in files.items():
                path = Path(folder) / name
                path.write_bytes(content)
                client.log_artifact(run_id, str(path))
    except Exception as error:
        said = trouble(error)
        if said is None:
            raise
        return said.says
    return None
