"""MLflow's own server on this machine, for looking at runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from foxflow.errors import FoxflowError, must
from foxflow.track.names import identify
from foxflow.track.store import QUIET, open_store

HOST = "127.0.0.1"
STARTS_S = 120
"""A first start migrates the store and loads all of MLflow."""


def pages(address: str, runs: Sequence[str]) -> tuple[str, ...]:
    """Where to look: the runs list or one run, and with several runs the page that compares them.

    Args:
        address: of a server, e.g. http://127.0.0.1:5000.
        runs: ids, starts of ids or names.

    Raises:
        Mistake: a name is no run's, or several runs'.
    """
    if not runs:
        return (f"{address}/#/experiments/{open_store().experiment_id}",)
    found = [identify(name) for name in runs]
    if len(found) == 1:
        return (f"{address}/#/experiments/{found[0].info.experiment_id}/runs/{found[0].info.run_id}",)
    ids = quote(json.dumps([run.info.run_id for run in found], separators=(",", ":")))
    homes = quote(json.dumps(sorted({run.info.experiment_id for run in found}), separators=(",", ":")))
    return address, f"{address}/#/compare-runs?runs={ids}&experiments={homes}"


@contextmanager
def serving(port: int) -> Iterator[tuple[str, subprocess.Popen[bytes] | None]]:
    """Serve the store of this folder, or of MLFLOW_TRACKING_URI, on this machine alone, while the context lasts.

    Args:
        port: must be free.

    Yields:
        The address, and the server's process; None where the store is a server already.

    Raises:
        Mistake: the port is taken, or the store can't be opened.
        FoxflowError: the server did not start.
    """
    opened = open_store()
    if opened.uri.startswith(("http://", "https://")):
        yield opened.uri, None
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise must("--port", "be free", f"{port}: {error.strerror}", "Choose another.") from error
    places = ["--backend-store-uri", opened.uri, "--artifacts-destination", str(Path("mlruns").absolute())]
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    child = subprocess.Popen(
        [*command, *places],
        env=os.environ | QUIET,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
        start_new_session=True,
    )
    try:
        address = f"http://{HOST}:{port}"
        _await(child, address)
        yield address, child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def _await(child: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and child.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=1).read()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise FoxflowError(f"MLflow's server did not answer at {address} (exit code {child.poll()})")
