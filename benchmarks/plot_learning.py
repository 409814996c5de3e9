"""Draw the reward curves of `benchmarks.learning`.

Run it with `python -m benchmarks.plot_learning docs/learning.json docs/learning.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

from benchmarks.learning import EVAL_STEPS, EVERY, TICK_USD
from foxflow.config import PRESETS


def main(source: Path, target: Path) -> None:
    """One line a seed, the planted rule dashed."""
    rows = [row for row in json.loads(source.read_text()) if row["data"] == "synthetic:reverting"]
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for row in sorted(rows, key=lambda row: row["seed"]):
        steps = [EVERY * (i + 1) for i in range(len(row["curve_ticks"]))]
        axes.plot(steps, row["curve_ticks"], linewidth=0.9, label=f"seed {row['seed']}")
    environment_steps = PRESETS["default"].B * EVAL_STEPS
    planted = sum(row["planted_usd"] for row in rows) / len(rows) / environment_steps / TICK_USD
    axes.axhline(planted, linestyle="--", color="black", linewidth=0.9, label="planted rule")
    axes.axhline(0, color="grey", linewidth=0.6)
    axes.set_xlabel("training step")
    axes.set_ylabel("reward, ticks a step and environment")
    axes.legend(fontsize="small", ncols=2)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
