"""Is a run with the same seed the same run? Each seed twice, in fresh processes, compared and gated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foxflow import flow
from foxflow.errors import must
from foxflow.experiments.published import attach, judged, publish, tags
from foxflow.experiments.rerun import launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs of one seed."""

    seed: int
    run_a: str
    run_b: str
    comparison: flow.Comparison
    gate: flow.Verdict


def check(seeds: Sequence[int], run_options: Sequence[str], note: Callable[[str], None]) -> tuple[Pair, ...]:
    """Run every seed twice.

    Args:
        seeds: each is a pair.
        run_options: of `foxflow run`, given to every run.
        note: called with a line on what is going on.

    Raises:
        Mistake: a run refused its options, or they hold a seed.
        FoxflowError: a run died.
    """
    stray = [word for word in run_options if word.partition("=")[0] == "--seed"]
    if stray:
        raise must("foxflow check", "take its seeds from --seeds", stray[0], "Write --seeds 42.")
    return tuple(_pair(seed, list(run_options), note) for seed in seeds)


def _pair(seed: int, run_options: list[str], note: Callable[[str], None]) -> Pair:
    from foxflow.comparison import compare
    from foxflow.gate import judge
    from foxflow.record import open_record

    runs = []
    for side in "ab":
        run = launch(["run", "--seed", str(seed), *run_options])
        runs.append(run)
        note(f"seed {seed}, run {side}: {run['run_name']} {run['fingerprint']} in {run['seconds']} s")
    a, b = (open_record(run["record"]) for run in runs)
    comparison, tracked = compare(a, b), all(run["run_id"] for run in runs)
    verdict, pages = judged(comparison, a, b) if tracked else (judge(comparison, a, b), {})
    note(f"seed {seed}: {comparison.verdict}, gate {'PASS' if verdict.passed else 'FAIL'}")
    run_a, run_b = (run["run_id"] or run["record"] for run in runs)
    if tracked:
        sides = {run_a: tags(comparison, run_b), run_b: tags(comparison, run_a)}
        if said := attach(publish(comparison, a, b, (run_a, run_b), verdict) | pages, sides):
            note(said)
    return Pair(seed=seed, run_a=run_a, run_b=run_b, comparison=comparison, gate=verdict)


def overall(pairs: Sequence[Pair]) -> str:
    """One verdict over all pairs: the worst, DIVERGED before NOT_COMPARABLE before INCOMPLETE before EQUAL."""
    found = {pair.comparison.verdict for pair in pairs}
    order = (flow.DIVERGED, flow.NOT_COMPARABLE, flow.INCOMPLETE)
    return next((verdict for verdict in order if verdict in found), flow.EQUAL if found else flow.INCOMPLETE)


def as_json(pairs: Sequence[Pair]) -> dict[str, object]:
    """The contract of `foxflow check --json`."""
    return {
        "verdict": overall(pairs),
        "seeds": [
            {
                "seed": pair.seed,
                "verdict": pair.comparison.verdict,
                "run_a": pair.run_a,
                "run_b": pair.run_b,
                "fingerprint": pair.comparison.fingerprints[0],
                "gate": "PASS" if pair.gate.passed else "FAIL",
            }
            for pair in pairs
        ],
    }
