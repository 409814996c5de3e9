"""The lane sums of digest fx1, over every buffer of a capture point by one launch.

The definition, and what makes a digest of two sums, is in foxflow/digest.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow


def sums(buffers: Sequence[Tensor]) -> Tensor:
    """Sum both lanes of fx1 over the logical row-major bytes of each buffer.

    Args:
        buffers: dense tensors of any dtype and shape, all on one device; a conjugate or negative view counts as what
            it stands for.

    Returns:
        int64 [buffers, 2] on their device (on the CPU where there are none): the sums modulo 2**64, as signed.

    Raises:
        Mistake: a buffer is not dense, or on another device than the first.

    Bits: integer sums have no order.
    """
    if not buffers:
        return torch.empty(0, 2, dtype=torch.int64)
    plain = [_plain(buffer, f"buffers[{i}]") for i, buffer in enumerate(buffers)]
    for i, buffer in enumerate(plain):
        if buffer.device != plain[0].device:
            raise must(f"buffers[{i}]", f"be on {plain[0].device} like the first", str(buffer.device))
    result: Tensor = _C.digest(plain)
    return result


def turn_sums(buffers: Sequence[Tensor], step: Tensor, turns: int) -> Tensor:
    """Sum both lanes over the part of each buffer that a step writes, at its own position.

    What the old bytes added taken away and what the new ones add put in is the whole buffer's sum again.

    Args:
        buffers: at least one dense tensor of any dtype, all on one device, each of `turns` equal parts.
        step: int64 scalar on their device; its part is number `step mod turns`.
        turns: steps after which the first part is written again.

    Returns:
        int64 [buffers, 2] on their device, modulo 2**64.

    Raises:
        Mistake: a buffer is not dense, its parts are not whole words of 8 bytes, or on a CPU the step is negative.
    """
    plain = [_plain(buffer, f"buffers[{i}]") for i, buffer in enumerate(buffers)]
    check.clock(step, plain[0])
    for i, buffer in enumerate(plain):
        size = buffer.numel() * buffer.element_size()
        if turns < 1 or (turns > 1 and size % (8 * turns)):
            raise must(f"buffers[{i}]", f"be {turns} parts of whole words of 8 bytes", f"{size} bytes")
    result: Tensor = _C.digest_turn(plain, step, turns)
    return result


def _plain(buffer: Tensor, name: str) -> Tensor:
    if buffer.layout is not torch.strided:
        raise must(name, "be dense", str(buffer.layout), "Digest its parts, or call to_dense().")
    return buffer.detach().resolve_conj().resolve_neg().contiguous()


@torch.library.register_fake("foxflow::digest")
def _(buffers: Sequence[Tensor]) -> Tensor:
    return buffers[0].new_empty((len(buffers), 2), dtype=torch.int64)


@torch.library.register_fake("foxflow::digest_turn")
def _(buffers: Sequence[Tensor], step: Tensor, turns: int) -> Tensor:
    return buffers[0].new_empty((len(buffers), 2), dtype=torch.int64)
