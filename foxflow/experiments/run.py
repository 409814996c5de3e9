"""One run of the reference trainer: market, training, record and tracking, and the twin it reproduces."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foxflow import flow
from foxflow.config import Config, Recording
from foxflow.determinism.specimens import check_device
from foxflow.errors import must
from foxflow.experiments import page
from foxflow.experiments.published import beside_twin
from foxflow.provenance import git_state, identity, source_digest

if TYPE_CHECKING:
    import torch

    from foxflow.market.book import Tape
    from foxflow.market.instrument import Instrument
    from foxflow.track import Tracked, Twin
    from foxflow.train.trainer import Trainer

SYNTHETIC = ("synthetic", "synthetic:reverting")
RECORDS = Path("mlruns") / "records"
"""Where records go that are not tracked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run is carried out; nothing here changes what it computes, but for `config` and `data`."""

    config: Config
    recording: Recording
    data: str = "synthetic"
    device: str = "auto"
    threads: int | None = None
    track: bool = True
    name: str | None = None
    stop_at: int | None = None
    strict: bool = False
    instrument: Instrument | None = None
    select: str | None = None
    command: tuple[str, ...] = ()
    """The words after `foxflow` that make this run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to."""

    run_id: str | None
    run_name: str
    record: flow.Record
    fingerprint: str | None
    steps: int
    seconds: float
    twin: Twin | None
    unsent: str | None = None
    """Why MLflow lacks a part of it, which waits in the spool; the twin may then be unknown."""
    unreported: str | None = None
    """Why the run has no report of itself and the twin that it departs from among its artifacts."""
    specimens: tuple[str, ...] = ()
    """Bugs that were switched on."""


Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all and a word of where the run is."""


def perform(options: Options, progress: Progress) -> Outcome:
    """Run, record and track.

    Raises:
        Mistake: an option, the data or the store can't be used; nothing is left behind.
    """
    device = _device(options.device)
    check_device(options.config.specimens, device.type)
    if options.config.gemm == "cublas" and device.type != "cuda":
        raise must("--gemm cublas", "run on a GPU", f"--device {options.device}", "Leave it out, or use --device cuda.")
    if options.stop_at is not None and not 1 <= options.stop_at <= options.config.steps:
        raise must("--stop-at", f"be 1 to {options.config.steps} (--steps)", options.stop_at)
    tape = load_tape(options)
    from foxflow.determinism import settings

    settings.fix(options.threads)
    settings.keep_memory()
    from foxflow.train.trainer import Trainer

    trainer = Trainer(options.config, options.recording, tape, device)
    manifest = _manifest(options, trainer, tape, settings.environment(device, options.config.gemm))
    name = options.name or f"seed-{options.config.seed}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not options.track:
        return _recorded(options, trainer, manifest, name, progress, None)
    from foxflow import track

    tags = page.tags(options.config, manifest["environment"], _identity(options, manifest), git_state())
    with track.open_run(name, page.params(options), tags) as tracked:
        page.note_data(tracked, options, tape)
        outcome = _recorded(options, trainer, manifest, name, progress, tracked)
    if outcome.twin is None or outcome.twin.agrees:
        return outcome
    return replace(outcome, unreported=beside_twin(outcome.record, tracked.run_id, outcome.twin.run_id))


def load_tape(options: Options) -> Tape:
    """The market of a run: generated, or read from a file."""
    from foxflow.market import book, data, simulate

    shape, config = options.config.shape, options.config
    if options.data in SYNTHETIC:
        rows = max(4096, 4 * (config.steps + shape.T + 34))
        make = simulate.synthetic if options.data == "synthetic" else simulate.reverting
        return make(config.seed, rows, shape.L)
    tape = data.load(
        options.data, levels=shape.L, strict=options.strict, instrument=options.instrument, select=options.select
    )
    book.check_trainable(tape, shape.T)
    return tape


def _device(name: str) -> torch.device:
    import torch

    from foxflow import ops

    if name == "cpu" or (name == "auto" and not (torch.cuda.is_available() and ops.has_cuda())):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise must("--device cuda", "find a CUDA device", "none", "Use --device cpu; its bits are the same.")
    if not ops.has_cuda():
        raise must("--device cuda", "find foxflow built with CUDA", "a build without", "Build it with FOXFLOW_CUDA=ON.")
    return torch.device("cuda", torch.cuda.current_device())


def _manifest(options: Options, trainer: Trainer, tape: Tape, environment: dict[str, object]) -> dict[str, Any]:
    from foxflow.train.dataflow import as_json

    names = trainer.plan.names()
    return {
        "seed": options.config.seed,
        "config": options.config.as_dict(),
        "source": {"foxflow": source_digest()},
        "data": {
            "tape": options.config.data,
            "instrument": tape.instrument.name,
            "terms": asdict(tape.instrument),
            "files": dict(tape.source),
        },
        "dataflow": as_json(options.config.shape),
        "environment": environment,
        "arithmetic": environment["arithmetic"],
        "capture": {"names": list(names), "thinned": not names},
        "command": list(options.command),
    }


def _identity(options: Options, manifest: dict[str, Any]) -> str:
    """What a twin must share with this run."""
    facts = {key: manifest[key] for key in ("seed", "config", "source", "data", "arithmetic", "capture")}
    return identity({**facts, "steps": options.config.steps if options.stop_at is None else options.stop_at})


def _recorded(
    options: Options, trainer: Trainer, manifest: dict[str, Any], name: str, progress: Progress, tracked: Tracked | None
) -> Outcome:
    from foxflow.record import Writer

    folder = (tracked.record_folder if tracked else None) or RECORDS / name
    total = options.config.steps + options.config.eval_steps + 1
    began, done = time.perf_counter(), 0
    with Writer(folder, manifest=manifest) as writer:
        for step in trainer.run(options.stop_at):
            writer.write(step)
            done += 1
            if tracked and step.diag is not None:
                tracked.metrics(step.step, page.metrics(step))
            progress(done, total, step.phase)
        record = writer.close(trainer.summaries(writer.fingerprint()))
    seconds = time.perf_counter() - began
    fingerprint = json.loads(record.manifest)["fingerprint"]
    if tracked:
        tracked.metrics(options.config.steps, page.summary_metrics(record))
        tracked.look_for_twin(_identity(options, manifest), fingerprint)
        tracked.close(record)
    return Outcome(
        run_id=tracked.run_id if tracked else None,
        run_name=name,
        record=record,
        fingerprint=fingerprint,
        steps=done,
        seconds=seconds,
        twin=tracked.twin if tracked else None,
        unsent=tracked.unsent if tracked else None,
        specimens=options.config.specimens,
    )
