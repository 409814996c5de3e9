"""The commands about where runs are kept: `sync` and `ui`."""

from __future__ import annotations

import json
import os
import signal
import sys
import webbrowser
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

from foxflow.cli.arguments import Json

Runs = Annotated[list[str] | None, typer.Argument(help="One run to look at, or two to compare.")]


def sync(as_json: Json = False) -> int:
    """Send what runs of this folder could not tell MLflow: nothing is lost, nothing is sent twice."""
    from foxflow import track

    found = track.sync()
    if as_json:
        typer.echo(json.dumps({"runs": [asdict(one) for one in found]}))
    else:
        for one in found:
            typer.echo(
                f"{one.run_name} ({one.run_id[:8]}): {one.parts} parts sent" + ("" if one.waits else ", complete")
            )
        if not found:
            typer.echo("nothing waits")
    for one in found:
        if one.waits:
            typer.echo(f"foxflow: {one.run_name}: {one.waits}", err=True)
    return 3 if any(one.waits for one in found) else 0


def ui(
    runs: Runs = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 5000,
    as_json: Json = False,
) -> int:
    """Serve the store on this machine alone until Ctrl-C, and say where to look; with two runs, where they compare."""
    from foxflow.track import server

    with server.serving(port, runs or ()) as (where, child), suppress(KeyboardInterrupt):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        typer.echo(json.dumps({"pages": where}) if as_json else "\n".join(where))
        sys.stdout.flush()
        if sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(where[-1])
        if child is not None:
            child.wait()
    return 0
