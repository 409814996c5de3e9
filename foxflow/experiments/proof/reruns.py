"""The whole command again in fresh processes, up to the accused place, with digests alone."""

from __future__ import annotations

from foxflow import flow
from foxflow.experiments.proof.places import Digests
from foxflow.experiments.proof.scene import NotDone, Scene
from foxflow.experiments.rerun import Again, again_words, command_of, rerun, spelt

INITS, RERUNS = 3, 4
"""Fresh processes of each experiment."""


def init_twice(scene: Scene) -> flow.Experiment:
    """Start the run again: an initial value of a seeded run is the same each time."""
    runs = _digests(scene, "init", INITS, 1)
    values = {digests[scene.place] for digests in runs}
    made = scene.graph.buffer(scene.place)
    maker = (made.starts if made else None) or scene.producer
    repeated = f"{maker} gives one value each time: seeded"
    return flow.Experiment(
        name="init-twice",
        repeats=INITS,
        outcome=f"{len(values)} distinct initial value{'' if len(values) == 1 else 's'} in {INITS} fresh processes",
        meaning=f"{maker} does not draw from the seed alone" if len(values) > 1 else repeated,
        reproduced=len(values) > 1,
        command=_command(scene, "init", 1),
    )


def again(scene: Scene) -> flow.Experiment:
    """Run up to the accused place: of reruns with equal inputs there, do results differ?"""
    stop = scene.stop(scene.place.step)
    runs = _digests(scene, "rerun", RERUNS, stop)
    inputs = scene.graph.digested_inputs(scene.place, runs[0])
    by_inputs: dict[tuple[str | None, ...], set[str]] = {}
    for digests in runs:
        by_inputs.setdefault(tuple(digests.get(place) for place in inputs), set()).add(digests[scene.place])
    most = max(len(found) for found in by_inputs.values())
    values = len({digests[scene.place] for digests in runs})
    if most > 1:
        meaning = f"equal inputs, other results: {scene.producer} differs between processes"
    elif values > 1:
        meaning = "results differ, but so do inputs: they follow a difference made before"
    else:
        meaning = "the reruns agree here: the difference did not come back"
    return flow.Experiment(
        name="rerun",
        repeats=RERUNS,
        outcome=f"{values} distinct result{'' if values == 1 else 's'} in {RERUNS} fresh processes, "
        f"{most} on equal inputs",
        meaning=meaning,
        reproduced=most > 1,
        command=_command(scene, "rerun", stop),
    )


def _digests(scene: Scene, name: str, count: int, stop: int | None) -> list[Digests]:
    found = []
    for i in range(count):
        scene.note(f"{name}: run {i + 1} of {count}")
        made = rerun(scene.a, scene.folder / "runs", f"{name}-{i}", Again(stop_at=stop))
        digests = scene.digests(made)
        if scene.place not in digests:
            raise NotDone(f"{scene.place} is digested only where it is dumped")
        found.append(digests)
    return found


def _command(scene: Scene, name: str, stop: int | None) -> str:
    words = again_words(command_of(scene.a), f"{name}-again", Again(stop_at=stop))
    return spelt(["foxflow", *words], scene.folder / "runs")
