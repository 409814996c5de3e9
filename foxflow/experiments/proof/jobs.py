"""Handing recomputations to a fresh process, and reading what it found; both are kept in the proof's folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foxflow import flow
from foxflow.experiments.proof.places import Place, recorded
from foxflow.experiments.proof.scene import NotDone, Scene, Sources
from foxflow.experiments.rerun import LAST_WORDS, fresh, spelt

WORKER = "foxflow.experiments.proof.worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to recompute, and under which conditions."""

    name: str
    record: flow.Record
    """Its manifest states shape, config and contract."""
    places: Sequence[Place]
    values: Sources
    repeats: int
    threads: int | None = None
    """The record's own where None."""
    fill: bool = False
    """Torch fills memory that nobody wrote: NaN, or the largest integer."""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One place, recomputed."""

    place: Place
    digests: tuple[str, ...]
    nonfinite: tuple[int, ...]
    why: str | None
    """Why it could not be recomputed."""

    @property
    def distinct(self) -> tuple[str, ...]:
        """Its different results, in the order in which they came."""
        return tuple(dict.fromkeys(self.digests))


def recompute(scene: Scene, job: Job) -> tuple[list[Result], str]:
    """Do a job in a fresh process.

    Returns:
        A result for each place, and the command that does it again.

    Raises:
        NotDone: the process died; its last words.
    """
    folder = scene.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{job.name}.json"
    path.write_text(json.dumps(_stated(scene, job), indent=1))
    words = [WORKER, str(path)]
    done = fresh(words, folder, job.variables)
    if done.returncode:
        raise NotDone(f"the process ended with exit code {done.returncode}: {done.stderr[-LAST_WORDS:].strip()}")
    answers = json.loads(path.with_suffix(".result.json").read_text())
    results = [
        Result(
            place=Place(*answer["place"]),
            digests=tuple(answer["digests"]),
            nonfinite=tuple(answer["nonfinite"]),
            why=answer["why"],
        )
        for answer in answers
    ]
    return results, spelt([Path(sys.executable).name, "-m", *words], folder, job.variables)


def _stated(scene: Scene, job: Job) -> dict[str, object]:
    environment = json.loads(job.record.manifest)["environment"]
    return {
        "record": str(Path(job.record.path).resolve()),
        "device": environment["device"],
        "threads": environment["threads"] if job.threads is None else job.threads,
        "fill": job.fill,
        "repeats": job.repeats,
        "values": _stated_values(job.values),
        "tasks": [{"place": place, "inputs": scene.graph.inputs(place)} for place in job.places],
    }


def _stated_values(values: Sources) -> list[tuple[Place, str, str]]:
    """Each place with the record that holds its bytes, and the digest that this record states of them."""
    steps, records = {place.step for place in values}, {record.path: record for record in values.values()}
    digests = {path: recorded(record, steps) for path, record in records.items()}
    return [(place, str(Path(one.path).resolve()), digests[one.path][place]) for place, one in values.items()]


def needed(scene: Scene, places: Iterable[Place]) -> set[Place]:
    """Every place that recomputing some places reads and that is not recomputed before."""
    made: set[Place] = set()
    found: set[Place] = set()
    for place in places:
        found |= {source for _, source in scene.graph.inputs(place) if source not in made}
        made.add(place)
    return found
