"""How surely is each specimen found? Pairs of short runs: how many differ, whom explain accuses, what prove proves.

Run it with `python -m benchmarks.specimens OUT.json [--device cpu|cuda] [--pairs 10] [--names iqn_race,none]`.
`none` is the clean control. Pairs have seeds 42, 43, …; only digests are recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.determinism.specimens import SPECIMENS

ROOT = Path(__file__).resolve().parent.parent
CLEAN = "none"
FIRST_SEED = 42
STEPS = {"cpu": 3, "cuda": 6}
"""Training steps of a run, of 200 planned."""
STEPS_OF = {("per_fence", "cuda"): 40}
"""The tree grows with the ring: the more of it there is, the more often a fast block is too fast."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One pair of runs of one specimen on one device."""

    folder: Path
    name: str
    seed: int
    device: str

    def found(self, prove: bool) -> dict[str, Any]:
        """Make both runs, then let foxflow explain the pair and, if asked, try its first root; its JSON."""
        a, b = (self._run(side) for side in "ab")
        proof = ["prove", a, b, "--repeats", "10", "--folder", f"proof-{self.name}-{self.seed}", "--json"]
        return self._foxflow(proof if prove else ["explain", a, b, "--json"], {0, 1})

    def _run(self, side: str) -> str:
        steps = STEPS_OF.get((self.name, self.device), STEPS[self.device])
        name = f"{self.name}-{self.seed}-{side}"
        words = [
            *("run", "--seed", str(self.seed), "--quick", "--stop-at", str(steps), "--device", self.device),
            *("--dump", "none", "--track", "none", "--run-name", name, "--json"),
            *([] if self.name == CLEAN else ["--specimen", self.name]),
        ]
        return str(self._foxflow(words, {0})["record"])

    def _foxflow(self, words: list[str], codes: set[int]) -> dict[str, Any]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, "-m", "foxflow", *words],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return dict(json.loads(done.stdout))


def tally(name: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the pairs of one specimen came to."""
    roots = [one["roots"][0] for one in found if one["roots"]]
    kernel = SPECIMENS[name].kernel if name in SPECIMENS else None
    tried = [one for one in found if "proven" in one]
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


def measure(names: Sequence[str], device: str, pairs: int, proofs: int, jobs: int) -> list[dict[str, Any]]:
    """Try all pairs, `jobs` at a time, and print a row for each specimen."""
    rows: list[dict[str, Any]] = []
    print(f"{'specimen':18} {'diverged':>9} {'root':>5} {'proven':>8} first")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        trials = {name: [Trial(Path(folder), name, FIRST_SEED + i, device) for i in range(pairs)] for name in names}
        going = {
            name: [pool.submit(trial.found, i < proofs) for i, trial in enumerate(mine)]
            for name, mine in trials.items()
        }
        for name, mine in going.items():
            row = tally(name, [one.result() for one in mine])
            rows.append(row)
            first = ", ".join(f"{buffer} {count}" for buffer, count in row["first"].items())
            counts = (
                f"{row['diverged']:>4}/{pairs:<4} {row['root_is_its_kernel']:>5} {row['proven']:>4}/{row['tried']:<3}"
            )
            print(f"{name:18} {counts} {first}  {row['proven_by']}", flush=True)
    return rows


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
    rows = measure(names, given.device, given.pairs, proofs, given.jobs or {"cpu": 1, "cuda": 8}[given.device])
    given.out.write_text(json.dumps({"device": given.device, "specimens": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
