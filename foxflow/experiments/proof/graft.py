"""Run A's bytes of the accused buffers put into run B's step: do those that followed become EQUAL?"""

from __future__ import annotations

from collections.abc import Iterable

from foxflow import flow
from foxflow.experiments.proof.jobs import Job, needed, recompute
from foxflow.experiments.proof.places import Graph, Place
from foxflow.experiments.proof.scene import NotDone, Scene, Sources, held, pair, supply

SHOWN = 3
"""Followers named that stayed apart."""


def graft(scene: Scene) -> flow.Experiment:
    """Recompute in B what follows from the accused producer within the step, from A's bytes of its buffers.

    Raises:
        NotDone: no pair of runs with all bytes of the step parts at the accused place.
    """
    a, b = pair(scene)
    own, other = scene.digests(a), scene.digests(b)
    apart = [place for place in own if place in other and own[place] != other[place]]
    grafted = scene.graph.siblings(scene.place, apart)
    if not grafted:
        raise NotDone(f"the runs with bytes do not part at {scene.place}")
    followers = following(scene.graph, grafted, apart)
    if not followers:
        return _experiment(scene, 0, [], "")
    job = Job(name="graft", record=b, places=followers, values=_values(scene, (a, b), grafted, followers), repeats=1)
    results, command = recompute(scene, job)
    still = [result.place for result in results if result.digests != (own[result.place],)]
    return _experiment(scene, len(followers), still, command)


def following(graph: Graph, grafted: Iterable[Place], apart: Iterable[Place]) -> list[Place]:
    """Differing places of the step that are made, at one or more removes, from grafted ones; in dataflow order."""
    reached, found = set(grafted), []
    (moment,) = {(place.phase, place.step) for place in reached}
    for place in apart:
        if (place.phase, place.step) != moment or place in reached:
            continue
        if any(source in reached for _, source in graph.inputs(place)):
            reached.add(place)
            found.append(place)
    return found


def _values(
    scene: Scene, runs: tuple[flow.Record, flow.Record], grafted: list[Place], followers: list[Place]
) -> Sources:
    a, b = runs
    wanted = needed(scene, followers) - set(grafted)
    values = held(a, grafted) | held(b, wanted)
    if begun := {place for place in wanted - values.keys() if scene.graph.begun(place)}:
        values |= supply(scene, begun)
    if lacking := (wanted | set(grafted)) - values.keys():
        raise NotDone(f"no dump holds {sorted(map(str, lacking))[0]}")
    return values


def _experiment(scene: Scene, followers: int, still: list[Place], command: str) -> flow.Experiment:
    outcome = f"{followers - len(still)} of {followers} followers become EQUAL"
    if not followers:
        outcome, meaning = (
            "no follower in its step",
            "nothing else in the step differs because of it: it is dormant here",
        )
    elif not still:
        meaning = f"all that differs in the step after {scene.place.buffer} comes from it"
    else:
        names = ", ".join(map(str, still[:SHOWN])) + (" …" if len(still) > SHOWN else "")
        meaning = f"other causes are at work too: {names}"
    return flow.Experiment(name="graft", repeats=1, outcome=outcome, meaning=meaning, reproduced=False, command=command)
