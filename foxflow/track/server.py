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
from typing import TYPE_CHECKING
from urllib.parse import quote

from foxflow.errors import FoxflowError, must
from foxflow.track.names import identify
from foxflow.track.store import QUIET, Store, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

HOST = "127.0.0.1"
SETTINGS = QUIET | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""Of its process: no background jobs, which are of no use for looking at runs."""

TRAINING = "workflowType=machine_learning"
"""Of MLflow's two faces the one for training; the other, its default, opens an experiment at a page without runs."""

STARTS_S = 120
"""A first start migrates the store and loads all of MLflow."""


def _pages(opened: Store, address: str, runs: Sequence[Run]) -> tuple[str, ...]:
    """The server's address, then the runs list, or one run, or the page that compares several."""
    if not runs:
        return address, f"{address}/#/experiments/{opened.experiment_id}/runs?{TRAINING}"
    if len(runs) == 1:
        info = runs[0].info
        return address, f"{address}/#/experiments/{info.experiment_id}/runs/{info.run_id}?{TRAINING}"
    ids = quote(json.dumps([run.info.run_id for run in runs], separators=(",", ":")))
    homes = quote(json.dumps(sorted({run.info.experiment_id for run in runs}), separators=(",", ":")))
    return address, f"{address}/#/compare-runs?runs={ids}&experiments={homes}&{TRAINING}"


@contextmanager
def serving(port: int, names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], subprocess.Popen[bytes] | None]]:
    """Serve the store of this folder, or of MLFLOW_TRACKING_URI, on this machine alone, while the context lasts.

    Args:
        port: must be free.
        names: of runs to look at: ids, starts of ids or names.

    Yields:
        Where to look (the server, then the page of the runs that were named), and the server's process; None where
        the store is a server already.

    Raises:
        Mistake: the port is taken, the store can't be opened, or a name is no run's or several runs'.
        FoxflowError: the server did not start.
    """
    opened = open_store()
    runs = [identify(name) for name in names]
    if opened.uri.startswith(("http://", "https://")):
        yield _pages(opened, opened.uri, runs), None
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise must("--port", "be free", f"{port}: {error.strerror}", "Choose another.") from error
    places = ["--backend-store-uri", opened.uri, "--artifacts-destination", str(Path("mlruns").absolute())]
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--uvicorn-opts", "--log-level warning"]
    child = subprocess.Popen(
        [*command, *places],
        env=os.environ | SETTINGS,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
        start_new_session=True,
    )
    try:
        address = f"http://{HOST}:{port}"
        _await(child, address)
        yield _pages(opened, address, runs), child
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
