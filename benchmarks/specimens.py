"""How surely is each specimen found? Pairs of short runs: how many differ, whom explain accuses, what prove proves.

Run it with `python -m benchmarks.specimens OUT.json [--device cpu|cuda] [--pairs 10] [--names iqn_race,none]`.
`none` is the clean control. Pairs have seeds 42, 43, …; only digests are recorded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.cli.options import QUICK
from foxflow.config import Config, Recording
from foxflow.determinism.specimens import SPECIMENS
from foxflow.experiments.run import RECORDS, Options, perform
from foxflow.record import open_record

CLEAN = "none"
FIRST_SEED = 42
STEPS = {"cpu": 3, "cuda": 6}
"""Training steps of a run, of 200 planned."""
STEPS_OF = {("per_fence", "cuda"): 40, ("wrong_stream", "cuda"): 24}
"""The tree grows with the ring: the more of it there is, the more often a fast block is too fast. Norms that are read
too early differ between runs only where memory held different things before."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One pair of runs of one specimen on one device."""

    folder: str
    name: str
    seed: int
    device: str

    def made(self, tried: bool) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What explain says of a fresh pair, and what prove says where the pair is to be tried."""
        return self.explained(), self.proven() if tried else None

    def explained(self) -> dict[str, Any]:
        """Make both runs and explain the pair; what `foxflow explain --json` prints."""
        from foxflow import explanation

        os.chdir(self.folder)
        return dict(explanation.as_json(explanation.explain(*(self._run(side) for side in "ab"))))

    def proven(self) -> dict[str, Any]:
        """Try the first root of a pair that was made; what `foxflow prove --json` prints."""
        from foxflow.experiments import prove

        os.chdir(self.folder)
        a, b = (open_record(RECORDS / self._name(side)) for side in "ab")
        options = prove.Options(repeats=10, folder=Path(f"proof-{self.name}-{self.seed}"))
        return prove.as_json(prove.prove(a, b, options, lambda line: None))

    def _name(self, side: str) -> str:
        return f"{self.name}-{self.seed}-{side}"

    def _run(self, side: str) -> flow.Record:
        stop_at = STEPS_OF.get((self.name, self.device), STEPS[self.device])
        words = ("run", "--seed", str(self.seed), "--quick", "--stop-at", str(stop_at), "--device", self.device)
        specimens = () if self.name == CLEAN else (self.name,)
        options = Options(
            config=Config(seed=self.seed, steps=QUICK[0], eval_steps=QUICK[1], specimens=specimens),
            recording=Recording(dump_groups=""),
            device=self.device,
            track=False,
            name=self._name(side),
            stop_at=stop_at,
            command=(*words, *(("--specimen", self.name) if specimens else ())),
        )
        return perform(options, lambda done, total, phase: None).record


def tally(name: str, found: Sequence[dict[str, Any]], tried: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the pairs of one specimen came to."""
    roots = [one["roots"][0] for one in found if one["roots"]]
    kernel = SPECIMENS[name].kernel if name in SPECIMENS else None
    by = Counter(e["name"] for one in tried for e in one["experiments"] if e["reproduced"])
    return {
        "specimen": name,
        "pairs": len(found),
        "diverged": sum(one["verdict"] == flow.DIVERGED for one in found),
        "accused": len(roots),
        "root_is_its_kernel": sum(kernel in root["producer"].split(", ") for root in roots),
        "tried": len(tried),
        "proven": sum(one["proven"] for one in tried),
        "proven_by": dict(by),
        "first": dict(Counter(root["buffer"] for root in roots).most_common()),
        "causes": dict(Counter(root["cause"] for root in roots).most_common()),
        "steps": sorted(root["step"] for root in roots),
    }


def measure(names: Sequence[str], device: str, pairs: int, proofs: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Try all pairs, `jobs` at a time; a row for each specimen as it is done."""
    processes = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    with tempfile.TemporaryDirectory() as folder, processes as pool:
        trials = {name: [Trial(folder, name, FIRST_SEED + i, device) for i in range(pairs)] for name in names}
        going = {
            name: [pool.submit(trial.made, i < proofs) for i, trial in enumerate(mine)] for name, mine in trials.items()
        }
        for name, mine in going.items():
            made = [one.result() for one in mine]
            yield tally(name, [found for found, _ in made], [proof for _, proof in made if proof is not None])


def told(row: dict[str, Any]) -> str:
    """A row as a person reads it."""
    first = ", ".join(f"{buffer} {count}" for buffer, count in row["first"].items())
    counts = (
        f"{row['diverged']:>4}/{row['pairs']:<4} {row['root_is_its_kernel']:>5} {row['proven']:>4}/{row['tried']:<3}"
    )
    return f"{row['specimen']:18} {counts} {first}  {row['proven_by']}"


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description="How surely is each specimen found?")
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--proofs", type=int, help="pairs of each that are tried by prove; all by default")
    parser.add_argument("--names", help="joined by commas; by default all that the device shows, and none")
    parser.add_argument("--jobs", type=int, help="runs at a time; 1 on a CPU, 8 on a GPU")
    given = parser.parse_args()
    all_names = [*(name for name, one in SPECIMENS.items() if given.device in one.devices), CLEAN]
    names = given.names.split(",") if given.names else all_names
    proofs = given.pairs if given.proofs is None else given.proofs
    rows: list[dict[str, Any]] = []
    print(f"{'specimen':18} {'diverged':>9} {'root':>5} {'proven':>8} first")
    for row in measure(names, given.device, given.pairs, proofs, given.jobs or {"cpu": 1, "cuda": 8}[given.device]):
        rows.append(row)
        print(told(row), flush=True)
        given.out.write_text(json.dumps({"device": given.device, "specimens": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
