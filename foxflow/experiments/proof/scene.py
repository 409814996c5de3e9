"""What an experiment works with, and the bytes it needs: from the records' own dumps or from reruns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.errors import FoxflowError
from foxflow.experiments.proof.places import Digests, Graph, Place, dumped, recorded
from foxflow.experiments.rerun import Again, rerun

TRIES = 3
"""Reruns for inputs that must equal the recorded ones: a race before them may strike in one and not in another."""


class NotDone(FoxflowError):
    """An experiment could not be carried out; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An accused place in a pair of records."""

    a: flow.Record
    b: flow.Record
    place: Place
    producer: str
    graph: Graph
    folder: Path
    repeats: int
    note: Callable[[str], None]

    @property
    def manifest(self) -> dict[str, Any]:
        """A's."""
        found: dict[str, Any] = json.loads(self.a.manifest)
        return found

    @property
    def cuda(self) -> bool:
        """Whether A ran on a GPU."""
        return bool(self.manifest["environment"]["device"] == "cuda")

    def stop(self, step: int) -> int | None:
        """Where a run ends that must reach a step; None where that is beyond training."""
        return step + 1 if step < self.graph.steps else None

    def digests(self, record: flow.Record) -> Digests:
        """What was recorded of the accused place's step, of the step before, of the first and of training's end."""
        return recorded(record, {0, max(self.place.step - 1, 0), self.place.step, self.graph.steps})


Sources = dict[Place, flow.Record]
"""Place -> the record whose dump holds its bytes."""


def held(record: flow.Record, places: Iterable[Place]) -> Sources:
    """Those of some places whose bytes a record holds."""
    return {place: record for place, _, _, _ in dumped(record, places)}


def supply(scene: Scene, places: Iterable[Place]) -> Sources:
    """Find the bytes of places of run A: in its own dumps, else in reruns whose digests there equal A's.

    Raises:
        NotDone: three reruns had other inputs than A recorded, or the run can't be repeated.
    """
    wanted = set(places)
    found = held(scene.a, wanted)
    if wanted == found.keys():
        return found
    stated = scene.digests(scene.a)
    for attempt in range(TRIES):
        fresh = _rerun(scene, scene.a, wanted - found.keys(), f"inputs-{attempt}")
        strays = [place for record in set(map(id, fresh.values())) for place in _strays(fresh, record, stated)]
        if not strays:
            return found | fresh
        scene.note(f"rerun {attempt + 1}: {strays[0]} is not what A recorded")
    raise NotDone(f"{TRIES} reruns of A did not bring back its recorded inputs; record with --dump all --dump-k")


def _strays(fresh: Sources, record: int, stated: Digests) -> list[Place]:
    """Places whose digest in a rerun is not the recorded one."""
    source = next(one for one in fresh.values() if id(one) == record)
    digests = recorded(source, {place.step for place in fresh})
    return [p for p, one in fresh.items() if id(one) == record and stated.get(p, digests.get(p)) != digests.get(p)]


def _rerun(scene: Scene, record: flow.Record, places: Iterable[Place], name: str) -> Sources:
    """Rerun a record with the bytes of some places kept, one run for each stretch of steps."""
    wanted, found = set(places), Sources()
    for first, end in stretches({place.step for place in wanted}):
        again = Again(stop_at=scene.stop(end - 1), dump_steps=(first, end))
        scene.note(f"running {record.path} again for the bytes of steps {first} to {end - 1}")
        fresh = rerun(record, scene.folder / "runs", f"{name}-{first}", again)
        found |= held(fresh, {place for place in wanted if first <= place.step < end})
    if lacking := wanted - found.keys():
        raise NotDone(f"no dump holds {sorted(map(str, lacking))[0]}")
    return found


def pair(scene: Scene) -> tuple[flow.Record, flow.Record]:
    """Two runs with every byte of the accused step and of the one before kept: A and B, else a rerun of each."""
    steps = {max(scene.place.step - 1, 0), scene.place.step}
    phase = scene.place.phase
    if all(
        {(phase, step) for step in steps} <= set(one.dump_steps) and _whole(scene, one) for one in (scene.a, scene.b)
    ):
        return scene.a, scene.b
    again = Again(stop_at=scene.stop(scene.place.step), dump_steps=(min(steps), max(steps) + 1))
    scene.note(f"running both again for the bytes of steps {min(steps)} to {max(steps)}")
    made = [rerun(one, scene.folder / "runs", f"graft-{side}", again) for one, side in ((scene.a, "a"), (scene.b, "b"))]
    return made[0], made[1]


def _whole(scene: Scene, record: flow.Record) -> bool:
    """Whether a record holds the bytes of all that it digested in the accused step."""
    places = [p for p in scene.digests(record) if (p.phase, p.step) == (scene.place.phase, scene.place.step)]
    return len(held(record, places)) == len(places)


def stretches(steps: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as stretches of consecutive ones, (first, end)."""
    found: list[tuple[int, int]] = []
    for step in sorted(set(steps)):
        if found and found[-1][1] == step:
            found[-1] = (found[-1][0], step + 1)
        else:
            found.append((step, step + 1))
    return found
