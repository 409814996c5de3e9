"""Is the accused producer the cause? Experiments, not arguments: proven is what came back under their own hands."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foxflow import flow
from foxflow.errors import FoxflowError, must
from foxflow.experiments.rerun import stated_command

if TYPE_CHECKING:
    from foxflow.experiments.proof.scene import Scene

REPEATS = 20
EXPERIMENTS = Path("mlruns") / "experiments"
"""Where experiments are kept, unless a folder is named."""

Note = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a cause is tried."""

    accuse: str | None = None
    """A buffer whose producer is tried instead of the first root's."""
    repeats: int = REPEATS
    folder: Path | None = None
    allow: tuple[str, ...] = ()


def prove(a: flow.Record, b: flow.Record, options: Options, note: Note) -> flow.Proof:
    """Try the producer that a divergence begins at.

    Args:
        a: a record of `foxflow run`; the experiments repeat its command.
        b: the other.
        options: whom to accuse, how often to repeat, where to keep what was found.
        note: called with a line on what is going on.

    Returns:
        The explanation, the accused, every experiment with its outcome, and whether one brought the difference back.
        Of a clean pair nobody is accused, and nothing is proven.

    Raises:
        Mistake: `accuse` names no buffer of the dataflow, `repeats` is no number from 2 to 10000, or there is somebody
            to accuse and A holds no command.
    """
    from foxflow.explanation import explain

    if not 2 <= options.repeats <= 10_000:
        raise must("--repeats", "be 2 to 10000", options.repeats)
    explanation = explain(a, b, allow=options.allow)
    accused = _accused(a, explanation, options.accuse)
    if accused is None or (explanation.comparison.reason or "").startswith("corrupt"):
        return flow.Proof(explanation=explanation, accused=accused, proven=False, experiments=())
    stated_command(a)
    folder = options.folder or kept_in(accused.where.buffer)
    experiments = tuple(_tried((a, b), accused, dataclasses.replace(options, folder=folder), note))
    proof = flow.Proof(
        explanation=explanation,
        accused=accused,
        proven=any(experiment.reproduced for experiment in experiments),
        experiments=experiments,
        folder=str(folder),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "proof.json").write_text(json.dumps(_kept(proof), indent=1) + "\n")
    return proof


def kept_in(name: str) -> Path:
    """A fresh folder for what experiments find."""
    plain = re.sub(r"[^\w.-]+", "-", name)
    return EXPERIMENTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{plain}"


def _accused(a: flow.Record, explanation: flow.Explanation, accuse: str | None) -> flow.Root | None:
    if accuse is None:
        return next(iter(explanation.roots), None)
    stated_command(a)
    named = [root for root in explanation.roots if accuse in (root.where.buffer, *root.also)]
    if named:
        return named[0] if named[0].where.buffer == accuse else _also(named[0], accuse)
    rows = [row for row in json.loads(a.manifest)["dataflow"] or () if row["buffer"] == accuse]
    if not rows:
        raise must("--accuse", "name a buffer of the dataflow", repr(accuse), "'foxflow show RUN' lists them.")
    where = _first_place(explanation.comparison, accuse) or _captured(rows[-1])
    row = next((row for row in rows if (row["at"] == "k") == (where.k is not None)), rows[0])
    producers = ", ".join(row["producers"])
    return flow.Root(
        where=where,
        cause="unknown",
        confidence="open",
        producer=producers,
        rule="accused by --accuse",
        sentence=f"{producers} is accused by the caller, through {accuse}.",
        evidence=(),
    )


def _also(root: flow.Root, buffer: str) -> flow.Root:
    return dataclasses.replace(root, where=dataclasses.replace(root.where, buffer=buffer))


def _first_place(comparison: flow.Comparison, buffer: str) -> flow.Where | None:
    """Where a buffer first differs."""
    for step in comparison.steps:
        for group in step.groups:
            for found in group.buffers:
                if (found.name, found.verdict) == (buffer, flow.DIVERGE):
                    return flow.Where(step=step.step, k=found.k, group=group.group, buffer=buffer, phase=step.phase)
    return None


def _captured(row: dict[str, Any]) -> flow.Where:
    """Where a buffer is captured first."""
    return flow.Where(step=0, k=0 if row["at"] == "k" else None, group=row["group"], buffer=row["buffer"])


def _tried(
    records: tuple[flow.Record, flow.Record], accused: flow.Root, options: Options, note: Note
) -> Iterator[flow.Experiment]:
    from foxflow.experiments.proof import graft, reruns
    from foxflow.experiments.proof.places import Graph, place_of
    from foxflow.experiments.proof.scene import Scene

    a, b = records
    place = place_of(accused.where)
    scene = Scene(
        a=a,
        b=b,
        place=place,
        producer=accused.producer,
        graph=Graph(json.loads(a.manifest)),
        folder=options.folder or kept_in(place.buffer),
        repeats=options.repeats,
        note=note,
    )
    if scene.graph.begun(place):
        yield _attempt("init-twice", lambda: reruns.init_twice(scene))
    else:
        yield from _of_a_kernel(scene)
    yield _attempt("graft", lambda: graft.graft(scene))


def _of_a_kernel(scene: Scene) -> Iterator[flow.Experiment]:
    from foxflow.experiments.proof import replays, reruns

    try:
        plain = replays.replay(scene)
    except FoxflowError as error:
        yield _not_done("replay", error)
    else:
        yield plain.experiment
        yield _attempt("blocking" if scene.cuda else "one-thread", lambda: replays.alone(scene, plain))
        yield _attempt("poison", lambda: replays.poison(scene, plain))
    yield _attempt("rerun", lambda: reruns.again(scene))


def _attempt(name: str, experiment: Callable[[], flow.Experiment]) -> flow.Experiment:
    try:
        return experiment()
    except FoxflowError as error:
        return _not_done(name, error)


def _not_done(name: str, error: FoxflowError) -> flow.Experiment:
    return flow.Experiment(
        name=name,
        repeats=0,
        outcome=f"not done: {error}",
        meaning="says nothing for or against",
        reproduced=False,
        command="",
    )


def _kept(proof: flow.Proof) -> dict[str, Any]:
    comparison, accused = proof.explanation.comparison, proof.accused
    return {
        "a": comparison.a,
        "b": comparison.b,
        "proven": proof.proven,
        "accused": None if accused is None else dataclasses.asdict(accused),
        "experiments": [dataclasses.asdict(experiment) for experiment in proof.experiments],
    }


def as_json(proof: flow.Proof) -> dict[str, Any]:
    """The contract of `foxflow prove --json`: explain's, the verdict, the accused, and every experiment."""
    from foxflow import explanation

    accused = proof.accused
    return {
        **explanation.as_json(proof.explanation),
        "proven": proof.proven,
        "accused": None if accused is None else _told(accused),
        "experiments": [dataclasses.asdict(experiment) for experiment in proof.experiments],
        "folder": proof.folder,
    }


def _told(root: flow.Root) -> dict[str, Any]:
    where = dataclasses.asdict(root.where)
    return {**where, "cause": root.cause, "producer": root.producer, "rule": root.rule, "sentence": root.sentence}


def as_text(proof: flow.Proof) -> str:
    """What a person reads: the explanation, then an experiment after another."""
    from foxflow import explanation

    lines = [explanation.as_text(proof.explanation)]
    if proof.accused is None:
        return "\n".join([*lines, "proven      no: nobody is accused"])
    lines.append(f"accused     {proof.accused.producer}, through {proof.accused.where.buffer}")
    for experiment in proof.experiments:
        mark = "reproduced" if experiment.reproduced else ""
        lines += [f"{experiment.name:12}{experiment.outcome}  {mark}".rstrip(), f"{'':12}{experiment.meaning}"]
        lines += [f"{'':12}{experiment.command}"] if experiment.command else []
    lines.append(f"proven      {'yes' if proof.proven else 'no'}")
    if proof.folder is not None:
        lines.append(f"kept in     {proof.folder}")
    return "\n".join(lines)
