"""Kernels of the world: samplers, accounts, what is seen, done and earned, and what is written into the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace

import torch
from torch import Tensor

from foxflow.agent import encoder, heads
from foxflow.agent.seams import IQN_ADVANCE
from foxflow.config import HORIZONS
from foxflow.market.book import rows_since_moved, train_rows
from foxflow.market.environment import RENAMED, restart, state
from foxflow.market.instrument import day_ns
from foxflow.ops import policy, world
from foxflow.ops import replay as ring
from foxflow.ops.world_state import Account, Contract, Segment, Step
from foxflow.replay import Replay, unjudged, write
from foxflow.train import rules
from foxflow.train.kernels.call import Call, Found
from foxflow.train.table import weight_name

COLUMNS = {RENAMED.get(f.name, f.name): f.name for f in fields(Account)}
"""Buffer of an account -> its field."""
SEEN = ("pos", "entry_ticks", "hold_steps", "pending_action", "rest_side")
"""Buffers of an account that features are made from."""
ADVANCES = {"act_prng_state": 1, "per_prng_state": 1, "iqn_prng_state": 2 * IQN_ADVANCE}
"""xorshift32 steps of a sampler's state from one capture to the next."""


def segments(c: Call, *, book: bool = True, clock: bool = True) -> tuple[Segment, Segment]:
    """The tape's two segments; a column that the kernel does not depend on is left at zero."""
    tape = c["tape_book" if book else "tape_ts"]
    rows = tape.shape[0]
    books = tape if book else torch.zeros(rows, 4 * c.shape.L, dtype=torch.int32, device=tape.device)
    zeros = torch.zeros(rows, dtype=torch.int64, device=tape.device)
    columns = {"book": books, "ts": zeros, "moved": zeros.int(), "day_ns": zeros}
    if clock:
        columns["ts"] = c["tape_ts"]
        columns["day_ns"] = torch.from_numpy(day_ns(c.setting.instrument, c["tape_ts"].cpu().numpy()))
    if book and clock:
        columns["moved"] = torch.from_numpy(rows_since_moved(books.cpu().numpy(), c.shape.L))
    on_device = {name: column.to(tape.device) for name, column in columns.items()}
    cut = train_rows(rows)
    return Segment(**on_device, begin=0, end=cut), Segment(**on_device, begin=cut, end=rows)


def segment(c: Call, *, book: bool = True, clock: bool = True) -> Segment:
    """The segment of the phase."""
    return segments(c, book=book, clock=clock)[c.setting.evaluates]


def account(c: Call, names: Iterable[str], mark: str = "") -> Account:
    """Accounts with the given columns, else flat."""
    flat = Account.flat(c[f"lob_cursor{mark}"])
    return replace(flat, **{COLUMNS[name]: c[f"{name}{mark}"].clone() for name in names})


def contract(c: Call) -> Contract:
    """What one lot is worth."""
    return Contract(tick_value_e4=c.setting.instrument.tick_value_e4, fee_e4=c.setting.instrument.fee_e4)


def reset(c: Call) -> Tensor:
    """A buffer of the accounts as a phase starts."""
    cursors = rules.cursors(c.setting.config.seed, *segments(c, clock=False), c.shape)
    return state(Account.flat(cursors[c.setting.evaluates]))[c.buffer.name]


def sampler(c: Call) -> Tensor:
    """A sampler's state: advanced since it was last captured, or left as it was."""
    name, inner = c.buffer.name, c.k is not None
    held = c[f"{name}{'~' if inner else '-'}"].clone()
    if not (c.setting.evaluates or c.k == 0):
        policy.prng_advance(held, ADVANCES[name])
    return held


def stepped(c: Call) -> Tensor:
    """A buffer of the accounts after the step before."""
    taken = account(c, COLUMNS, "-")
    world.env_step(segment(c, clock=False), taken, contract(c), c["action-"], c.clock(back=1))
    if c.buffer.name == "lob_cursor":
        restart(taken, c["wrap-"], segment(c, clock=False), c.shape)
    return state(taken)[c.buffer.name]


def carry(c: Call) -> Tensor:
    """cfc_carry."""
    carried = torch.zeros_like(c["roll_h_t-"])
    world.carry_update(carried, c["roll_h_t-"], c["wrap-"])
    return carried


def window(c: Call) -> Tensor:
    """obs_win."""
    s, device = c.shape, c.setting.device
    pushed = c.own("obs_win-", lambda: torch.zeros(s.B, s.T, s.F, device=device))
    fresh = c.own("wrap-", lambda: torch.ones(s.B, dtype=torch.uint8, device=device))
    world.window_push(pushed, c["obs"], fresh, segment(c), c["lob_cursor"])
    return pushed


def seconds(c: Call, account: Account) -> Tensor:
    """Seconds before an account's row; the book has no part in it."""
    return world.features(segment(c, book=False), account)[1]


def encoded(c: Call) -> Tensor:
    """roll_h_t."""
    dt = seconds(c, account(c, ()))
    w = Found(lambda key: c[weight_name(key)])
    return encoder.forward(w, c.shape, c["obs_win"], c["cfc_carry"], dt)


def logits(c: Call) -> Tensor:
    """roll_pi_logits."""
    return heads.linear(Found(lambda key: c[weight_name(key)]), "pi", c["roll_h_t"])


def acted(c: Call) -> Tensor:
    """action or log_pi; greedy in evaluation."""
    if c.setting.evaluates:
        return policy.greedy_action(c["roll_pi_logits"])
    both = rules.acted(c.setting.config, c.step, c["roll_pi_logits"], c["act_prng_state"])
    return both[c.buffer.name == "log_pi"]


def moved(c: Call) -> Tensor:
    """A buffer of rows 16 and 17 that the step of the world makes."""
    step = world.env_step(segment(c, clock=False), account(c, COLUMNS), contract(c), c["action"], c.clock())
    made: Tensor = getattr(step, c.buffer.name)
    return made


def rewards(c: Call) -> Tensor:
    """reward_raw or reward_shaped; the equity before the step follows from cash, position and the row before."""
    before, tape = account(c, ("pos", "cash_half_ticks")), segment(c, clock=False)
    step = world.env_step(tape, before, contract(c), torch.zeros_like(c["pos"]), c.clock())
    was = step.equity_half_ticks - step.equity_delta
    earned: Step = replace(step, fills=c["fills"], equity_delta=c["equity_half_ticks"] - was)
    return world.reward(earned, c["isv"], contract(c))[c.buffer.name == "reward_shaped"]


def seen_next(c: Call) -> Tensor:
    """obs_next."""
    after = account(c, COLUMNS)
    world.env_step(segment(c, clock=False), after, contract(c), c["action"], c.clock())
    return world.features(segment(c), after)[0]


def _spans(c: Call) -> dict[str, Tensor]:
    before, tape = account(c, ()), segment(c, book=False)
    after = account(c, ())
    world.env_step(tape, after, contract(c), torch.zeros_like(c["lob_cursor"], dtype=torch.int32), c.clock())
    return {"dt": seconds(c, before), "dt_next": seconds(c, after)}


def _labels(c: Call) -> dict[str, Tensor]:
    return {"labels": world.frd_labels(segment(c, clock=False), c["lob_cursor"], HORIZONS)}


DERIVED: dict[str, Callable[[Call], dict[str, Tensor]]] = {"slot_dt": _spans, "slot_frd": _labels}
"""Slots whose rows no record holds."""


def inserted(c: Call) -> Tensor:
    """A buffer of the ring."""
    name = c.buffer.name
    slots = c.own(f"{name}-", lambda: Replay(c.shape, c.setting.device).slots[name])
    rows = DERIVED[name](c) if name in DERIVED else Found(c.__getitem__)
    write({name: slots}, {name: rules.STORED[name](rows)}, c.clock(), c.setting.config.specimens)
    return slots


def outcomes(c: Call) -> Tensor:
    """slot_outcome."""
    slots = c.own("slot_outcome-", lambda: Replay(c.shape, c.setting.device).outcome)
    write({"slot_outcome": slots}, {"slot_outcome": unjudged(slots, c.shape)}, c.clock(), ())
    ring.assign_labels(slots, c.clock(), c["done"], c["trade_pnl_e4"], c["trade_open_step"])
    return slots


KERNELS: dict[str, Callable[[Call], Tensor]] = {
    **dict.fromkeys(ADVANCES, sampler),
    **dict.fromkeys(COLUMNS, stepped),
    "cfc_carry": carry,
    "lob_book": lambda c: world.book_gather(segment(c, clock=False), c["lob_cursor"]),
    "obs": lambda c: world.features(segment(c), account(c, SEEN))[0],
    "obs_win": window,
    "roll_h_t": encoded,
    "roll_pi_logits": logits,
    **dict.fromkeys(("action", "log_pi"), acted),
    **dict.fromkeys(("fills", "done", "wrap", "trade_pnl_e4", "trade_open_step", "equity_half_ticks"), moved),
    **dict.fromkeys(("reward_raw", "reward_shaped"), rewards),
    "obs_next": seen_next,
    **dict.fromkeys(rules.STORED, inserted),
    "slot_outcome": outcomes,
}
"""Buffer of rows 8 to 20 -> what makes it."""
