"""One buffer of a run made again, from its listed inputs alone, by the very code that the run ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from foxflow.agent.parameters import draw
from foxflow.errors import must
from foxflow.ops.linalg import products
from foxflow.train import rules
from foxflow.train.kernels import learning, world
from foxflow.train.kernels.call import Call
from foxflow.train.kernels.places import row, started
from foxflow.train.kernels.setting import Setting
from foxflow.train.plan import ONCE
from foxflow.train.table import weight_name


def _initial(c: Call) -> Tensor:
    drawn = draw(c.shape, c.setting.config.seed, c.setting.config.specimens)
    return next(x for key, x in drawn.items() if weight_name(key) == c.buffer.name)


def _filled(value: float) -> Callable[[Call], Tensor]:
    return lambda c: torch.full(c.buffer.shape(c.shape, 0), value)


STARTS: dict[str, Callable[[Call], Tensor]] = {
    **dict.fromkeys(("init_trunk", "init_head", "init_outcome"), _initial),
    "zeros": _filled(0.0),
    "ones": _filled(1.0),
    "config": lambda c: rules.isv_start(c.setting.device),
    "splitmix": lambda c: rules.sampler(c.buffer.name, c.setting.config.seed, c.shape, c.setting.device),
    "copy": lambda c: c[c.buffer.inputs[0]].clone(),
    "env_reset": world.reset,
}
"""What makes a buffer where a run or its evaluation starts."""


def replay(setting: Setting, name: str, step: int, k: int | None, inputs: Mapping[str, Tensor]) -> Tensor:
    """Make one buffer again.

    Args:
        setting: of the run and phase.
        name: the buffer.
        step: its step.
        k: its iteration; None outside the inner loop.
        inputs: by the keys of `inputs_of`, on the setting's device; read, never changed.

    Returns:
        With the dtype and shape of the dataflow, sharing no memory with the inputs.

    Raises:
        Mistake: the dataflow does not have the buffer there, or it is the tape, which no kernel makes.
    """
    buffer = row(setting, name, k)
    if buffer.group == ONCE:
        raise must(name, "be made by a kernel to be replayed", "the tape", "It is generated or read before step 0.")
    call = Call(setting, buffer, step, k, inputs)
    with torch.no_grad(), products(setting.config.gemm):
        if buffer.starts is not None and started(setting, buffer, step):
            made = STARTS[buffer.starts](call).to(setting.device)
        else:
            made = (world.KERNELS.get(name) or learning.kernels(call.shape)[name])(call)
    return made.reshape(buffer.shape(call.shape, 0))
