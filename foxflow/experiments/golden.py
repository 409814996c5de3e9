"""A run against a fingerprint that is kept in a repository: did this change of code change the bits?

A golden file states digest scheme, arithmetic, and for each seed and set of settings one fingerprint and what made it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foxflow import __version__, flow
from foxflow.digest import SCHEME
from foxflow.errors import must
from foxflow.experiments.rerun import launch
from foxflow.provenance import identity

SETTINGS = ("seed", "config", "data", "capture")
"""What a golden is of; the source is not among them, for whether it changed the bits is the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One run held against its golden."""

    seed: int
    verdict: str
    """EQUAL, DIVERGED, or NOT_COMPARABLE where the file holds no golden of these settings."""
    fingerprint: str
    golden: str | None
    run: str
    reason: str


def hold(
    path: Path, seeds: Sequence[int], run_options: Sequence[str], note: Callable[[str], None], *, write: bool = False
) -> tuple[Held, ...]:
    """Run each seed once and hold its fingerprint against the file's.

    Args:
        path: the golden file.
        seeds: one run each.
        run_options: of `foxflow run`.
        note: called with a line on what is going on.
        write: put the fingerprints into the file instead.

    Raises:
        Mistake: the file is missing or no golden file, or a run refused its options.
    """
    file = _read(path, write)
    return tuple(_held(path, file, seed, list(run_options), note, write) for seed in seeds)


def _held(
    path: Path, file: dict[str, Any], seed: int, options: list[str], note: Callable[[str], None], write: bool
) -> Held:
    from foxflow.record import open_record

    said = launch(["run", "--seed", str(seed), *options])
    manifest = json.loads(open_record(said["record"]).manifest)
    run, fingerprint = said["run_id"] or said["record"], str(said["fingerprint"])
    key, arithmetic = identity({name: manifest[name] for name in SETTINGS}), manifest["arithmetic"]
    note(f"seed {seed}: {said['run_name']} {fingerprint}")
    if write:
        _write(path, file, manifest, {"seed": seed, "settings": key, "fingerprint": fingerprint, "options": options})
    known = next((entry["fingerprint"] for entry in file["runs"] if entry["settings"] == key), None)
    verdict, reason = flow.EQUAL, "the golden fingerprint"
    command = ["foxflow", "golden", str(path), "--seeds", str(seed), "--write", *options]
    renew = f"If the change is meant, renew it: {shlex.join(command)}"
    if (file["digest"], file["arithmetic"]) != (SCHEME, arithmetic):
        was = f"digest {file['digest']}, arithmetic {file['arithmetic']}"
        verdict, reason = flow.NOT_COMPARABLE, f"the golden is of {was}, the run of {SCHEME}, {arithmetic}. {renew}"
    elif known is None:
        verdict, reason = flow.NOT_COMPARABLE, f"no golden of this seed and these settings. {renew}"
    elif known != fingerprint:
        verdict, reason = flow.DIVERGED, f"golden {known}, run {fingerprint}. {renew}"
    return Held(seed=seed, verdict=verdict, fingerprint=fingerprint, golden=known, run=run, reason=reason)


def _read(path: Path, write: bool) -> dict[str, Any]:
    if write and not path.exists():
        return {"digest": SCHEME, "arithmetic": None, "runs": []}
    if not path.is_file():
        raise must(str(path), "be a golden file", "no such file", "Make it with --write.")
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
        if not {"digest", "arithmetic", "runs"} <= set(file) or not isinstance(file["runs"], list):
            raise ValueError
    except (ValueError, TypeError):
        raise must(str(path), "hold digest, arithmetic and runs as JSON", "something else", "See --write.") from None
    return dict(file)


def _write(path: Path, file: dict[str, Any], manifest: dict[str, Any], entry: dict[str, Any]) -> None:
    environment = manifest["environment"]
    if (file["digest"], file["arithmetic"]) != (SCHEME, manifest["arithmetic"]):
        file["runs"] = []
    made = {
        "on": f"{datetime.now(UTC):%Y-%m-%d}",
        "foxflow": __version__,
        "torch": environment["torch"],
        "device": environment.get("gpu", environment["device"]),
        "machine": f"{environment['machine']}, {environment['cpu_capability']}, {environment['threads']} threads",
    }
    file |= {"digest": SCHEME, "arithmetic": manifest["arithmetic"]}
    file["runs"] = [*(e for e in file["runs"] if e["settings"] != entry["settings"]), entry | {"made": made}]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(file, indent=1) + "\n", encoding="utf-8")


def as_json(held: Sequence[Held]) -> dict[str, object]:
    """What `foxflow golden --json` prints."""
    return {
        "verdict": overall(held),
        "seeds": [
            {
                "seed": one.seed,
                "verdict": one.verdict,
                "run": one.run,
                "fingerprint": one.fingerprint,
                "golden": one.golden,
                "reason": one.reason,
            }
            for one in held
        ],
    }


def overall(held: Sequence[Held]) -> str:
    """The worst verdict, DIVERGED before NOT_COMPARABLE before EQUAL."""
    found = {one.verdict for one in held}
    return next((verdict for verdict in (flow.DIVERGED, flow.NOT_COMPARABLE) if verdict in found), flow.EQUAL)
