"""Does the trainer learn? Greedy profit on rows it never saw, against the rule that was planted in the tape.

`python -m benchmarks.learning OUT.json [--seeds 0:10] [--steps 4000] [--device auto] [--jobs 1] [--data …]` trains each
seed on
`synthetic:reverting` and on the plain random walk, in fresh processes, and writes figures and reward curves as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from foxflow.config import PRESETS, Config, Recording, seeds_of
from foxflow.experiments.run import Options, load_tape
from foxflow.market.book import train_rows
from foxflow.market.simulate import planted_rule, profit_per_step

EVAL_STEPS, EVERY = 200, 50
TICK_USD = 12.5


def train(seed: int, data: str, steps: int, device: str) -> dict[str, Any]:
    """One run in a fresh process: its evaluation, its curve, and what the planted rule makes on the same rows."""
    name = f"learning-{data.replace(':', '-')}-{seed}-{steps}"
    words = ["run", "--seed", str(seed), "--data", data, "--steps", str(steps), "--eval-steps", str(EVAL_STEPS)]
    words += ["--device", device, "--threads", "1", "--dump", "none", "--record", "none", "--track", "none"]
    command = [sys.executable, "-m", "foxflow", *words, "--run-name", name, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    record = Path(result["record"])
    lines = [json.loads(line) for line in (record / "diag.jsonl").read_text().splitlines()]
    rewards = [line["env"]["mean_reward_raw"] for line in lines if line["phase"] == "train"]
    curve = [sum(rewards[i : i + EVERY]) / EVERY for i in range(0, len(rewards) - EVERY + 1, EVERY)]
    summary = json.loads((record / "eval_summary.json").read_text())
    weights = json.loads((record / "alpha_rl_train_summary.json").read_text())["weights"]
    planted = planted_profit(seed, data, steps)
    print(f"{data:22} seed {seed:3}  {summary['n_trades']:5} trades  {summary['total_pnl_usd']:12.2f} USD", flush=True)
    return {
        "seed": seed,
        "data": data,
        "trades": summary["n_trades"],
        "pnl_usd": summary["total_pnl_usd"],
        "planted_usd": planted,
        "share": summary["total_pnl_usd"] / planted if planted > 0 else None,
        "seconds": result["seconds"],
        "weights": weights,
        "curve_ticks": curve,
    }


def planted_profit(seed: int, data: str, steps: int) -> float:
    """What the planted rule makes on the evaluation rows, for as many environment steps, the spread paid."""
    config = Config(seed=seed, steps=steps, data=data)
    tape = load_tape(Options(config=config, recording=Recording(), data=data))
    cut = train_rows(len(tape.ts))
    unseen = type(tape)(
        book=tape.book[cut:], ts=tape.ts[cut:], moved=tape.moved[cut:], levels=tape.levels,
        instrument=tape.instrument, dropped=(), source=(),
    )  # fmt: skip
    return profit_per_step(unseen, planted_rule(unseen)) * TICK_USD * PRESETS["default"].B * EVAL_STEPS


def main() -> None:
    """Train every seed on both tapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", nargs="+", default=["synthetic:reverting", "synthetic"])
    parser.add_argument("--jobs", type=int, default=1)
    words = parser.parse_args()
    jobs = [(seed, data) for data in words.data for seed in seeds_of(words.seeds)]
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(words.jobs) as pool:
        for done in as_completed([pool.submit(train, *job, words.steps, words.device) for job in jobs]):
            rows.append(done.result())
            words.out.write_text(json.dumps(rows, indent=1) + "\n")
    for data in words.data:
        mine = [row for row in rows if row["data"] == data]
        gains = sum(row["pnl_usd"] > 0 for row in mine)
        print(f"{data}: profit in {gains} of {len(mine)}, least trades {min(row['trades'] for row in mine)}")
        shares = [row["share"] for row in mine if row["share"] is not None]
        if shares:
            print(f"  share of the planted rule: least {min(shares):.2f}, largest {max(shares):.2f}")


if __name__ == "__main__":
    main()
