"""What a run's page in MLflow shows beside its record: parameters, tags, the data it learnt from, its curves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foxflow import flow
from foxflow.provenance import machine

if TYPE_CHECKING:
    from foxflow.config import Config
    from foxflow.experiments.run import Options
    from foxflow.market.book import Tape
    from foxflow.track import Tracked

CURVES = ("loss", "grad_norm", "isv", "env", "per")
"""Parts of a diag line that are numbers to look at; checksums are none, for a metric loses bits."""


def params(options: Options) -> dict[str, object]:
    """The config, and what was recorded."""
    return {"seed": options.config.seed, **options.config.as_dict(), "record": options.recording.level}


def tags(config: Config, environment: dict[str, Any], identity: str, git: tuple[str, str] | None) -> dict[str, str]:
    """What a search for twins goes by, and where the run was made.

    Args:
        config: of the run; specimens make it unclean.
        environment: of its manifest.
        identity: what a twin must share with it.
        git: of `provenance.git_state`; changes make the run unclean.
    """
    clean = not config.specimens and not (git and git[1])
    found = {f"foxflow.{name}": value for name, value in machine().items()} | {
        "foxflow.identity": identity,
        "foxflow.clean": "true" if clean else "false",
        "foxflow.seed": str(config.seed),
        "foxflow.device": str(environment.get("gpu", environment["device"])),
    }
    if config.specimens:
        found["foxflow.specimens"] = ",".join(config.specimens)
    if git:
        found |= {"foxflow.git": git[0], "foxflow.git_dirty": git[1] or "clean"}
    return found


def note_data(tracked: Tracked, options: Options, tape: Tape) -> None:
    """Log the tape as MLflow's dataset input: its file's SHA-256, or generator and seed."""
    if tape.source:
        facts: dict[str, object] = {"sha256": dict(tape.source)}
        name = Path(options.data).name
    else:
        facts = {"generator": options.data, "seed": options.config.seed, "rows": len(tape.ts)}
        name = f"{options.data}({options.config.seed})"
    one_file = len(tape.source) == 1
    seal = tape.source[0][1] if one_file else hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    tracked.data(name, seal, facts)


def metrics(step: flow.Step) -> dict[str, float | None]:
    """The numbers of a step's diag line, `loss/total` and so on; those of evaluation are under `eval/`."""
    fields = json.loads(step.diag or "{}")
    under = "eval/" if step.phase == flow.EVAL else ""
    return {f"{under}{part}/{name}": value for part in CURVES for name, value in fields.get(part, {}).items()}


def summary_metrics(record: flow.Record) -> dict[str, float]:
    """The numbers of eval_summary.json as `eval/summary/NAME`, so that two runs' stand side by side."""
    found = json.loads(record.read("eval_summary.json") or b"{}")
    return {
        f"eval/summary/{name}": float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
