"""Tapes, accounts and play that the tests of the world share."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from bits import clock

from foxflow.ops import world
from foxflow.ops.world_state import Account, Contract, Segment, Step
from foxflow.reference import world as reference

ES = Contract(tick_value_e4=125000, fee_e4=0)
STOCK = Contract(tick_value_e4=100, fee_e4=35)


def tape(rows: int, levels: int, seed: int = 0, *, begin: int = 0, end: int | None = None) -> reference.Tape:
    """A random walk with spreads 1 to 3, missing deeper levels, equal times, long gaps and unmoved stretches."""
    rng = np.random.default_rng(seed)
    bid = 20000 + np.cumsum(rng.integers(-2, 3, rows))
    ask = bid + rng.integers(1, 4, rows)
    depth = np.arange(levels)
    sides = []
    for price in (bid[:, None] - depth, ask[:, None] + depth):
        missing = (rng.random((rows, levels)) < 0.2) & (depth > 0)
        sizes = rng.integers(1, 200, (rows, levels))
        sides += [np.where(missing, 0, price), np.where(missing, 0, sizes)]
    gaps = rng.choice([0, 1, 900_000, 10**9, 3 * 10**10], rows)
    ts = np.cumsum(gaps) + 1_700_000_000 * 10**9
    return reference.Tape(
        book=np.concatenate(sides, 1).astype(np.int32),
        ts=ts,
        moved=rng.integers(0, 50, rows).astype(np.int32),
        day_ns=ts % (86400 * 10**9),
        begin=begin,
        end=rows if end is None else end,
    )


def segment(of: reference.Tape, device: str = "cpu") -> Segment:
    columns = {name: torch.from_numpy(getattr(of, name)).to(device) for name in ("book", "ts", "moved", "day_ns")}
    return Segment(**columns, begin=of.begin, end=of.end)


def quotes(*pairs: tuple[int, int]) -> Segment:
    """A tape of one level from (bid, ask) pairs."""
    book = torch.tensor([[bid, 1, ask, 1] for bid, ask in pairs], dtype=torch.int32)
    n = len(pairs)
    zeros = torch.zeros(n, dtype=torch.int64)
    return Segment(book=book, ts=zeros, moved=zeros.int(), day_ns=zeros, begin=0, end=n)


def play(on: Segment, actions: list[int], contract: Contract = ES) -> tuple[list[dict[str, int]], Account]:
    """One environment from row 0; what each step did, as plain numbers."""
    account = Account.flat(torch.zeros(1, dtype=torch.int64))
    done = []
    for step, action in enumerate(actions):
        out = world.env_step(on, account, contract, torch.tensor([action], dtype=torch.int32), clock(step))
        done.append({name: int(getattr(out, name)) for name in Step.__slots__})
    return done, account


def state(account: Account) -> dict[str, list[int]]:
    return {f.name: getattr(account, f.name).tolist() for f in dataclasses.fields(account)}


def situation(levels: int, batch: int, device: str) -> tuple[reference.Tape, Segment, Account]:
    """Accounts in every kind of state, the first at the segment's first row and the last at its last."""
    of = tape(200, levels, 11, begin=40, end=180)
    rng = np.random.default_rng(12)
    rows = np.concatenate([[40, 179], rng.integers(40, 180, batch - 2)])
    account = Account.flat(torch.from_numpy(rows).to(device))
    draw = {"pos": (-1, 2), "pending": (0, 9), "rest_side": (-1, 2), "hold_steps": (0, 400)}
    for name, (low, high) in draw.items():
        getattr(account, name).copy_(torch.from_numpy(rng.integers(low, high, batch)))
    offset = torch.from_numpy(rng.integers(-40, 40, batch).astype(np.int32)).to(device)
    account.entry_ticks.copy_((segment(of, device).book[account.cursor, 0] + offset) * account.pos.abs())
    return of, segment(of, device), account
