"""A run's own command again, in a fresh process: other things are recorded, the same is computed."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.errors import FoxflowError, Mistake, must
from foxflow.provenance import PACKAGE

PLACES = ("CUDA_VISIBLE_DEVICES",)
"""Recorded variables that name a place on a machine, not a setting: a rerun keeps its own."""
LAST_WORDS = 2000
"""Characters of a dead run's stderr that are passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What a rerun does otherwise than the run that it repeats."""

    stop_at: int | None = None
    """End after this many steps; schedules stay."""
    dump_steps: tuple[int, int] | None = None
    """Keep every buffer of every iteration from one step up to another; None: digests alone."""
    threads: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, on top of the recorded ones."""


def rerun(record: flow.Record, folder: Path, name: str, again: Again) -> flow.Record:
    """Run a record's command again.

    Args:
        record: of `foxflow run`.
        folder: where the new run works; made if absent.
        name: of the new run; its record is `mlruns/records/NAME` below the folder.
        again: what is different.

    Returns:
        The new record, opened.

    Raises:
        Mistake: the record has no command, its data file moved or changed, or the run refused its options.
        FoxflowError: the run died.
    """
    words = again_words(command_of(record), name, again)
    return started(words, folder, _variables(record) | dict(again.variables))


def started(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> flow.Record:
    """Run `foxflow run` in a folder and open what it recorded there."""
    from foxflow.record import open_record

    folder.mkdir(parents=True, exist_ok=True)
    said = launch(words, folder, variables)
    return open_record(folder / said["record"])


def command_of(record: flow.Record) -> tuple[str, ...]:
    """The words after `foxflow` that made a record, fit to be run again.

    Raises:
        Mistake: it holds none, or the market file they name is no longer the one that was read.
    """
    words = stated_command(record)
    _same_data(words, json.loads(record.manifest)["data"].get("files") or {})
    return words


def stated_command(record: flow.Record) -> tuple[str, ...]:
    """The words after `foxflow` that made a record.

    Raises:
        Mistake: it holds none.
    """
    words = tuple(json.loads(record.manifest).get("command") or ())
    if not words:
        do = "Only runs of 'foxflow run' can be run again; for another program record the steps in question with dumps."
        raise must(record.path, "hold the command that made it", "none", do)
    return words


def _same_data(words: tuple[str, ...], files: Mapping[str, str]) -> None:
    if not files:
        return
    named = Path(words[words.index("--data") + 1])
    for file, seal in files.items():
        path = named.with_name(file)
        if not path.is_file():
            raise must(str(path), "be there to repeat the run", "no such file", "Put it back where the run read it.")
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != seal:
            raise must(str(path), f"have SHA-256 {seal[:12]}… as the run read it", f"{found[:12]}…", "Put it back.")


def _variables(record: flow.Record) -> dict[str, str]:
    """The recorded variables that can move bits."""
    recorded = json.loads(record.manifest)["environment"].get("variables") or {}
    return {name: str(value) for name, value in recorded.items() if name not in PLACES}


def again_words(words: Sequence[str], name: str, again: Again) -> tuple[str, ...]:
    """A command with options appended; later ones win."""
    found = [*words, "--track", "none", "--run-name", name]
    if again.stop_at is not None:
        found += ["--stop-at", str(again.stop_at)]
    if again.threads is not None:
        found += ["--threads", str(again.threads)]
    if again.dump_steps is None:
        return (*found, "--dump", "none")
    first, end = again.dump_steps
    return (*found, "--record", "all", "--dump", "all", "--dump-k", "--dump-steps", f"{first}:{end}")


def launch(
    words: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Any:
    """Run foxflow in a fresh process.

    Args:
        words: after `foxflow`, without --json.
        folder: where it works; this one by default.
        variables: of its environment, on top of this process's.
        python: the interpreter; another one than this must find a foxflow by itself.

    Returns:
        The JSON that it printed.

    Raises:
        Mistake: it refused its options; its own words.
        FoxflowError: it died.
    """
    done = fresh(["foxflow", *words, "--json"], folder, variables, python)
    if done.returncode == 2:
        raise Mistake(done.stderr.strip().splitlines()[-1].removeprefix("foxflow: "))
    if done.returncode:
        last = done.stderr[-LAST_WORDS:]
        raise FoxflowError(f"'{shlex.join(['foxflow', *words])}' ended with exit code {done.returncode}: {last}")
    return json.loads(done.stdout)


def fresh(
    module: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE …` from any folder; this interpreter runs this foxflow, another one what its own path holds."""
    kept = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = [str(PACKAGE.parent)] if python == sys.executable else []
    path = os.pathsep.join(dict.fromkeys([*own, *kept]))
    return subprocess.run(
        [python, "-m", *module],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def spelt(words: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """A command as a person types it."""
    stated = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
    return " ".join([f"cd {shlex.quote(str(folder.resolve()))} &&", *stated, shlex.join(words)])
