"""The lane sums of digest fx1, over every buffer of a capture point by one launch.

The definition, and what makes a digest of two sums, is in foxflow/digest.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from foxflow.errors import must

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


def range_sums(buffers: Sequence[Tensor], begins: Sequence[int], ends: Sequence[int]) -> Tensor:
    """Sum both lanes over some bytes of each buffer at their own positions.

    What the old bytes added taken away and what the new ones add put in is the whole buffer's sum again.

    Args:
        buffers: at least one dense tensor of any dtype and shape, all on one device.
        begins: first byte of each, a multiple of 8.
        ends: byte after the last: a multiple of 8, or the buffer's end.

    Returns:
        int64 [buffers, 2] on their device, modulo 2**64.

    Raises:
        Mistake: a buffer is not dense, or a range lies outside its buffer or cuts a word.
    """
    plain = [_plain(buffer, f"buffers[{i}]") for i, buffer in enumerate(buffers)]
    for i, (buffer, begin, end) in enumerate(zip(plain, begins, ends, strict=True)):
        size = buffer.numel() * buffer.element_size()
        if not 0 <= begin <= end <= size:
            raise must(f"range {i}", f"lie inside the buffer's {size} bytes", f"{begin} and {end}")
        if begin % 8 or (end % 8 and end != size):
            raise must(f"range {i}", "begin and end at multiples of 8 bytes or the buffer's end", f"{begin} and {end}")
    result: Tensor = _C.digest_ranges(plain, begins, ends)
    return result


def _plain(buffer: Tensor, name: str) -> Tensor:
    if buffer.layout is not torch.strided:
        raise must(name, "be dense", str(buffer.layout), "Digest its parts, or call to_dense().")
    return buffer.detach().resolve_conj().resolve_neg().contiguous()


@torch.library.register_fake("foxflow::digest")
def _(buffers: Sequence[Tensor]) -> Tensor:
    return buffers[0].new_empty((len(buffers), 2), dtype=torch.int64)


@torch.library.register_fake("foxflow::digest_ranges")
def _(buffers: Sequence[Tensor], begins: Sequence[int], ends: Sequence[int]) -> Tensor:
    return buffers[0].new_empty((len(buffers), 2), dtype=torch.int64)
