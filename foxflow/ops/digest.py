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
    fresh = torch.zeros(len(buffers), 2, dtype=torch.int64, device=buffers[0].device if buffers else None)
    add(fresh, buffers)
    return fresh


def add(sums: Tensor, buffers: Sequence[Tensor]) -> None:
    """Add the sums of buffers to others.

    Args:
        sums: int64 [buffers, 2], of `sums` or zeros; changed.
        buffers: as `sums` takes them, on the device of the sums.

    Raises:
        Mistake: a buffer is not dense, or on another device; or there is not a row for each.
    """
    plain = _plain(sums, buffers)
    if plain:
        _C.digest(sums, plain)


def add_turn(sums: Tensor, buffers: Sequence[Tensor], step: Tensor, turns: int, *, away: bool = False) -> None:
    """Add the sums of the part of each buffer that a step writes, at its own position, or take them away.

    What the old bytes added taken away and what the new ones add put in is the whole buffer's sum again.

    Args:
        sums: int64 [buffers, 2], changed modulo 2**64.
        buffers: as `add` takes them, each of `turns` equal parts.
        step: int64 scalar on their device; its part is number `step mod turns`.
        turns: steps after which the first part is written again.
        away: subtract.

    Raises:
        Mistake: as `add`; or parts are not whole words of 8 bytes, or on a CPU the step is negative.
    """
    plain = _plain(sums, buffers)
    check.clock(step, sums)
    for i, buffer in enumerate(plain):
        size = buffer.numel() * buffer.element_size()
        if turns < 1 or (turns > 1 and size % (8 * turns)):
            raise must(f"buffers[{i}]", f"be {turns} parts of whole words of 8 bytes", f"{size} bytes")
    _C.digest_turn(sums, plain, step, turns, away)


def _plain(sums: Tensor, buffers: Sequence[Tensor]) -> list[Tensor]:
    """Buffers as their bytes lie in a record."""
    check.tensor(sums, "sums", "BL", torch.int64)
    check.size(sums, "sums", 0, len(buffers), "buffers")
    check.size(sums, "sums", 1, 2, "lanes")
    return [_bytes_of(buffer, f"buffers[{i}]", sums) for i, buffer in enumerate(buffers)]


def _bytes_of(buffer: Tensor, name: str, sums: Tensor) -> Tensor:
    if buffer.layout is not torch.strided:
        raise must(name, "be dense", str(buffer.layout), "Digest its parts, or call to_dense().")
    if buffer.device != sums.device:
        raise must(name, f"be on {sums.device} like its sums", str(buffer.device))
    return buffer.detach().resolve_conj().resolve_neg().contiguous()
