"""alpha_rl_train_summary.json: what a run came to, free of time, path, host and pid."""

from __future__ import annotations

import json
from typing import Any

from foxflow.config import Config
from foxflow.train.diag import plain

SCHEMA = 1


class Summary:
    """Adds up the training steps of one run."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._first_done: int | None = None
        self._done = self._pnl_e4 = 0
        self._rewards: list[float] = []
        self._last: dict[str, Any] = {}

    def note(self, t: int, pnl_e4: int, fields: dict[str, Any]) -> None:
        """Add one training step: what its closed trades earned in 1e-4 of the currency, and its diag fields."""
        closed = fields["env"]["n_done"]
        if closed and self._first_done is None:
            self._first_done = t
        self._done += closed
        self._pnl_e4 += pnl_e4
        self._rewards.append(fields["env"]["mean_reward_raw"])
        self._last = {"loss": fields["loss"], "isv": fields["isv"]}

    def text(self, weights: str, fingerprint: str | None) -> bytes:
        """The file; a loss that is not finite is null and listed.

        Args:
            weights: digest of all weights after the last step.
            fingerprint: of the record.
        """
        nonfinite: list[str] = []
        values = {
            "schema": SCHEMA,
            "seed": self._config.seed,
            "steps": len(self._rewards),
            "b_size": self._config.shape.B,
            "k_loop": self._config.shape.K,
            "first_done_step": self._first_done,
            "n_done": self._done,
            "n_trades_train": self._done,
            "total_pnl_usd": self._pnl_e4 / 10_000,
            "mean_reward_raw": sum(self._rewards) / len(self._rewards) if self._rewards else None,
            **{name: plain(value, name, nonfinite) for name, value in self._last.items()},
            "nonfinite": nonfinite,
            "weights": weights,
            "fingerprint": fingerprint,
        }
        return (json.dumps(values, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()
