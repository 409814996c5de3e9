"""The accused producer alone, again and again on the recorded inputs: as it ran, on one thread, on poisoned memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foxflow import flow
from foxflow.experiments.proof.jobs import Job, Result, needed, recompute
from foxflow.experiments.proof.scene import NotDone, Scene, Sources, supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The plain replays, which the others are held against."""

    experiment: flow.Experiment
    values: Sources
    result: Result


def replay(scene: Scene) -> Replayed:
    """Run the producer on the recorded inputs, each time anew; more than one result reproduces the difference.

    Raises:
        NotDone: the inputs' bytes can't be had, or the producer can't be run on them.
    """
    values = supply(scene, needed(scene, [scene.place]))
    result, command = _run(scene, _job(scene, "replay", values))
    stated = [scene.digests(record).get(scene.place) for record in (scene.a, scene.b)]
    among = [
        f"{side}'s recorded digest is {'' if own in result.digests else 'not '}among them"
        for side, own in zip("AB", stated, strict=True)
    ]
    experiment = flow.Experiment(
        name="replay",
        repeats=scene.repeats,
        outcome=f"{_results(result)}; {', '.join(among)}",
        meaning=_meaning(scene, result, stated),
        reproduced=len(result.distinct) > 1,
        command=command,
    )
    return Replayed(experiment=experiment, values=values, result=result)


def _job(scene: Scene, name: str, values: Sources) -> Job:
    return Job(name=name, record=scene.a, places=[scene.place], values=values, repeats=scene.repeats)


def _run(scene: Scene, job: Job) -> tuple[Result, str]:
    scene.note(f"{job.name}: {job.repeats} times {scene.place}")
    (result,), command = recompute(scene, job)
    if result.why is not None:
        raise NotDone(result.why)
    return result, command


def _results(result: Result) -> str:
    count = len(result.distinct)
    return f"{count} distinct result{'' if count == 1 else 's'} in {len(result.digests)}"


def _meaning(scene: Scene, result: Result, stated: list[str | None]) -> str:
    if len(result.distinct) > 1:
        return f"{scene.producer} gives other bits on the same inputs, in one process: it is nondeterministic"
    own, other = (digest in result.digests for digest in stated)
    if own and other:
        return f"{scene.producer} repeats, and both runs have its result: it is not the cause"
    if own or other:
        side = "B" if own else "A"
        return f"{scene.producer} repeats here; what gave run {side} another result did not strike, or lies outside it"
    return f"{scene.producer} repeats here with a result that neither run has: it reads what the dataflow does not list"


def alone(scene: Scene, plain: Replayed) -> flow.Experiment:
    """The replays on one thread, or on a GPU with blocking launches: supporting evidence, no reproduction."""
    name, how = ("blocking", "blocking launches") if scene.cuda else ("one-thread", "one thread")
    variables = {"CUDA_LAUNCH_BLOCKING": "1"} if scene.cuda else {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    job = replace(_job(scene, name, plain.values), threads=None if scene.cuda else 1, variables=variables)
    result, command = _run(scene, job)
    before, now = len(plain.result.distinct), len(result.distinct)
    if before > 1 and now == 1:
        meaning = f"with {how} the result stands still: what runs at the same time makes the difference"
    elif now > 1:
        meaning = (
            f"the result varies with {how} too: the producer starts threads of its own, or they are not the matter"
        )
    else:
        meaning = f"one result with {how} as without: no evidence of a race"
    return flow.Experiment(
        name=name, repeats=scene.repeats, outcome=_results(result), meaning=meaning, reproduced=False, command=command
    )


def poison(scene: Scene, plain: Replayed) -> flow.Experiment:
    """The replays with fresh memory filled by torch: a result that changes with it reads what nobody wrote."""
    result, command = _run(scene, replace(_job(scene, "poison", plain.values), fill=True))
    appeared = max(result.nonfinite) > max(plain.result.nonfinite)
    moved = len(plain.result.distinct) == 1 and set(result.distinct) != set(plain.result.distinct)
    if appeared or moved:
        meaning = f"{scene.producer} reads memory that nobody wrote"
    elif len(plain.result.distinct) > 1 or len(result.distinct) > 1:
        meaning = "the results vary with and without poison: nothing can be told from it"
    else:
        meaning = "poisoned memory changes nothing: no sign of reading what nobody wrote"
    grown = f", up to {max(result.nonfinite)} elements NaN or Inf where there were {max(plain.result.nonfinite)}"
    return flow.Experiment(
        name="poison",
        repeats=scene.repeats,
        outcome=_results(result) + (grown if appeared else ""),
        meaning=meaning,
        reproduced=appeared or moved,
        command=command,
    )
