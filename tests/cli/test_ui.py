"""`foxflow ui` starts MLflow's real server and says where to look."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest
from cli.commanding import ROOT, here
from track.serving import free_port

from foxflow.track import open_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs in a store of this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    made = []
    for name in ("a", "b"):
        run = open_run(name, {"seed": 1}, {})
        run.close(None)
        made.append(run.run_id)
    return made


def test_the_server_answers_on_this_machine_alone_and_names_the_page_that_compares(runs, tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "foxflow", "ui", "a", runs[1][:8], "--port", str(port), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    pages = json.loads(child.stdout.readline())["pages"]
    try:
        assert pages[0] == f"http://127.0.0.1:{port}"
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(pages[1]).fragment.partition("?")[2])
        assert json.loads(asked["runs"][0]) == runs
        page = urllib.request.urlopen(pages[0], timeout=20).read()
        assert b"<title>MLflow</title>" in page
        listed = f"{pages[0]}/api/2.0/mlflow/runs/get?run_id={runs[0]}"
        assert json.loads(urllib.request.urlopen(listed, timeout=20).read())["run"]["info"]["run_name"] == "a"
    finally:
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_that_is_taken_is_a_mistake(runs, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = here(capsys, "ui", "--port", str(port))
    assert (code, out) == (2, "")
    assert f"--port must be free, got {port}" in err


def test_of_a_store_that_is_a_server_the_page_is_named_and_nothing_is_started(runs, capsys, tmp_path):
    from track.serving import server

    with server(tmp_path / "server") as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", made.uri)
        run = open_run("there", {}, {})
        run.close(None)
        code, out, _ = here(capsys, "ui", "there")
    assert (code, out.splitlines()[1]) == (
        0,
        f"{made.uri}/#/experiments/1/runs/{run.run_id}?workflowType=machine_learning",
    )


def test_a_run_that_is_not_there_is_a_mistake(runs, capsys):
    code, out, err = here(capsys, "ui", "nothing", "--port", str(free_port()))
    assert (code, out, "RUN must be a folder, a run id or a run name, got nothing" in err) == (2, "", True)
