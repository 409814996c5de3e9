"""What a run starts from and writes down, each as one function that the trainer and the replay of a kernel share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from foxflow.config import Config, Shape
from foxflow.determinism.init import STREAMS
from foxflow.determinism.stream import Stream
from foxflow.market.environment import Moved, start_cursors
from foxflow.ops import policy
from foxflow.ops.world_state import Segment

ISV_START = (1.0, 0.01, 0.99, 0.4, 0.5, 0.0, 0.0, 25.0, 1e-3)
SCRIPT = (1, 8)
"""Actions of steps 0 and 1 of the tiny preset: buy, flatten."""
SAMPLERS = {"act_prng_state": "act", "per_prng_state": "per", "iqn_prng_state": "iqn_state"}
"""State of a sampler -> the stream that it starts from."""


def sampler(name: str, seed: int, s: Shape, device: torch.device) -> Tensor:
    """The states that a sampler starts from, uint32 [B]."""
    return torch.from_numpy(Stream(seed, STREAMS[SAMPLERS[name]]).words32(s.B)).to(device)


def isv_start(device: torch.device) -> Tensor:
    """The internal state variables of step 0, float32 [16]."""
    isv = torch.zeros(16, device=device)
    isv[: len(ISV_START)] = torch.tensor(ISV_START, device=device)
    return isv


def cursors(seed: int, train: Segment, evaluation: Segment, s: Shape) -> tuple[Tensor, Tensor]:
    """The rows that training and evaluation start on, from one stream in this order."""
    stream = Stream(seed, STREAMS["cursors"])
    return start_cursors(stream, train, s), start_cursors(stream, evaluation, s)


def acted(config: Config, t: int, logits: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the actions of a training step, or play them from the script; the sampler's state is not advanced."""
    action, log_pi = policy.sample_action(logits, state)
    if config.scripted and t < len(SCRIPT):
        action = torch.full_like(action, SCRIPT[t])
    return action, log_pi


STORED: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    "slot_win": lambda x: torch.cat([x["obs_win"], x["obs_next"][:, None]], 1),
    "slot_carry": lambda x: x["cfc_carry"],
    "slot_dt": lambda x: torch.stack([x["dt"], x["dt_next"]], 1),
    "slot_action": lambda x: x["action"],
    "slot_reward": lambda x: x["reward_shaped"],
    "slot_done": lambda x: x["done"] | x["wrap"],
    "slot_log_pi": lambda x: x["log_pi"],
    "slot_frd": lambda x: x["labels"],
}
"""The rows that a step writes into the ring, from what it saw and did, by name."""


def world_buffers(moved: Moved) -> dict[str, Tensor]:
    """Rows 16 to 18 under the names of the dataflow."""
    return {
        "fills": moved.step.fills,
        "done": moved.step.done,
        "wrap": moved.step.wrap,
        "trade_pnl_e4": moved.step.trade_pnl_e4,
        "trade_open_step": moved.step.trade_open_step,
        "equity_half_ticks": moved.step.equity_half_ticks,
        "reward_raw": moved.reward_raw,
        "reward_shaped": moved.reward_shaped,
        "obs_next": moved.obs_next,
    }
