"""How surely does each specimen show? Pairs of short runs in fresh processes: how many differ, and in what first.

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
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.comparison import compare
from foxflow.determinism.specimens import SPECIMENS
from foxflow.record import open_record

ROOT = Path(__file__).resolve().parent.parent
CLEAN = "none"
FIRST_SEED = 42
STEPS = {"cpu": 3, "cuda": 6}
"""Training steps of a run, of 200 planned."""
STEPS_OF = {("per_fence", "cuda"): 40}
"""The tree grows with the ring: the more of it there is, the more often a fast block is too fast."""


def run(folder: Path, name: str, seed: int, side: str, device: str) -> Path:
    """One run in a fresh process; returns its record's folder."""
    steps = STEPS_OF.get((name, device), STEPS[device])
    words = [
        *("run", "--seed", str(seed), "--quick", "--stop-at", str(steps), "--device", device),
        *("--dump", "none", "--track", "none", "--run-name", f"{name}-{seed}-{side}", "--json"),
        *([] if name == CLEAN else ["--specimen", name]),
    ]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "foxflow", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return folder / str(json.loads(done.stdout)["record"])


def tally(name: str, pairs: Sequence[tuple[Path, Path]]) -> dict[str, Any]:
    """Compare the pairs of one specimen."""
    found = [compare(open_record(a), open_record(b)) for a, b in pairs]
    firsts = [one.first for one in found if one.verdict == flow.DIVERGED and one.first]
    own = SPECIMENS[name].buffers if name in SPECIMENS else ()
    return {
        "specimen": name,
        "pairs": len(found),
        "diverged": len(firsts),
        "first_is_its_own": sum(where.buffer in own for where in firsts),
        "unusable": sum(one.verdict not in (flow.EQUAL, flow.DIVERGED) for one in found),
        "first": dict(Counter(where.buffer for where in firsts).most_common()),
        "steps": sorted(where.step for where in firsts),
    }


def measure(names: Sequence[str], device: str, pairs: int, jobs: int) -> list[dict[str, Any]]:
    """Run all pairs, `jobs` runs at a time, and print a row for each specimen."""
    rows: list[dict[str, Any]] = []
    print(f"{'specimen':18} {'diverged':>9} {'own':>5}  first")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        for name in names:
            wanted = [(name, FIRST_SEED + pair, side) for pair in range(pairs) for side in "ab"]
            made = list(pool.map(lambda words: run(Path(folder), *words, device), wanted))
            row = tally(name, list(zip(made[::2], made[1::2], strict=True)))
            rows.append(row)
            first = ", ".join(f"{buffer} {count}" for buffer, count in row["first"].items())
            print(f"{name:18} {row['diverged']:>4}/{pairs:<4} {row['first_is_its_own']:>5}  {first}", flush=True)
    return rows


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description="How surely does each specimen show?")
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--names", help="joined by commas; by default all that the device shows, and none")
    parser.add_argument("--jobs", type=int, help="runs at a time; 1 on a CPU, 8 on a GPU")
    given = parser.parse_args()
    all_names = [*(name for name, one in SPECIMENS.items() if given.device in one.devices), CLEAN]
    names = given.names.split(",") if given.names else all_names
    rows = measure(names, given.device, given.pairs, given.jobs or {"cpu": 1, "cuda": 8}[given.device])
    given.out.write_text(json.dumps({"device": given.device, "specimens": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
