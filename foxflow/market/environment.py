"""B environments side by side on one segment of a tape: what they see, hold and owe.

Axes: B environments, T window, F features, K columns of a book row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from foxflow.config import HORIZONS, Shape
from foxflow.determinism.stream import Stream
from foxflow.market.book import Tape, train_rows
from foxflow.market.instrument import day_ns
from foxflow.ops import world
from foxflow.ops.world_state import Account, Contract, Segment, Step

LAST_START = 4
"""Start cursors end this many rows before the segment's end, so that no wrap can close a trade before step 2."""


def segments(tape: Tape, device: torch.device) -> tuple[Segment, Segment]:
    """Put a tape on a device and cut it: the first 80 % trains, the rest evaluates."""
    columns = {"book": tape.book, "ts": tape.ts, "moved": tape.moved, "day_ns": day_ns(tape.instrument, tape.ts)}
    on_device = {name: torch.from_numpy(column).to(device) for name, column in columns.items()}
    cut, end = train_rows(len(tape.ts)), len(tape.ts)
    return Segment(**on_device, begin=0, end=cut), Segment(**on_device, begin=cut, end=end)


def start_cursors(stream: Stream, segment: Segment, s: Shape) -> Tensor:
    """Draw B rows from the segment's T - 1 … end - 4, int64 on the segment's device."""
    first, last = segment.begin + s.T - 1, segment.end - LAST_START
    rows = torch.from_numpy(stream.below(last - first + 1, s.B)) + first
    return rows.to(segment.book.device)


RENAMED = {"cursor": "lob_cursor", "pending": "pending_action"}
"""Columns of an account that the dataflow calls otherwise."""


def state(account: Account) -> dict[str, Tensor]:
    """An account under the names of the dataflow."""
    return {RENAMED.get(f.name, f.name): getattr(account, f.name) for f in fields(account)}


def restart(account: Account, wrap: Tensor, segment: Segment, s: Shape) -> None:
    """Put wrapped environments back to the first row of the segment with a whole window before it."""
    world.env_wrap(account, wrap, segment, segment.begin + s.T - 1)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the environments show as a step starts."""

    book: Tensor
    obs: Tensor
    window: Tensor
    dt: Tensor


@dataclass(frozen=True, slots=True)
class Moved:
    """What a step did: its fills, trades and equity, the rewards, and the next observation before any jump."""

    step: Step
    reward_raw: Tensor
    reward_shaped: Tensor
    obs_next: Tensor
    dt_next: Tensor


class Environment:
    """Positions, orders and windows of B environments on one segment.

    Args:
        segment: the rows they live on.
        contract: what a tick is worth, and the fee.
        s: sizes.
        cursors: int64 [B], the row each starts at.
    """

    def __init__(self, segment: Segment, contract: Contract, s: Shape, cursors: Tensor) -> None:
        self.segment, self._contract, self._shape = segment, contract, s
        self.account = Account.flat(cursors)
        self.window = torch.zeros(s.B, s.T, s.F, device=cursors.device)
        self._fresh = torch.ones(s.B, dtype=torch.uint8, device=cursors.device)

    def state(self) -> dict[str, Tensor]:
        """The account under the names of the dataflow."""
        return state(self.account)

    def observe(self) -> Seen:
        """Look at the current row; the window moves on by one, or is rebuilt after a start or a wrap."""
        book = world.book_gather(self.segment, self.account.cursor)
        obs, dt = world.features(self.segment, self.account)
        world.window_push(self.window, obs, self._fresh, self.segment, self.account.cursor)
        return Seen(book, obs, self.window, dt)

    def labels(self) -> Tensor:
        """Forward-return bins of the current row, int32 [B, 3]."""
        return world.frd_labels(self.segment, self.account.cursor, HORIZONS)

    def move(self, step: Tensor, action: Tensor, isv: Tensor) -> Moved:
        """Play one step; `jump` must follow before the next one.

        Args:
            step: int64 scalar, its number.
            action: int32 [B].
            isv: float32 [16]; the reward's scale is read.
        """
        did = world.env_step(self.segment, self.account, self._contract, action, step)
        raw, shaped = world.reward(did, isv, self._contract)
        obs_next, dt_next = world.features(self.segment, self.account)
        return Moved(did, raw, shaped, obs_next, dt_next)

    def jump(self, wrap: Tensor) -> None:
        """Restart the wrapped environments at the segment's start."""
        restart(self.account, wrap, self.segment, self._shape)
        self._fresh.copy_(wrap)
