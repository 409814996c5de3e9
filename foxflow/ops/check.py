"""What every operator asks of its tensors, in words."""

from __future__ import annotations

from torch import Tensor, dtype, float32, float64, int64

from foxflow.errors import must

FLOATS = (float32, float64)


def tensor(x: Tensor, name: str, axes: str, *dtypes: dtype, like: Tensor | None = None) -> None:
    """Refuse a tensor of another rank, dtype or device.

    Args:
        x: the tensor.
        name: its argument's name.
        axes: one letter an axis, e.g. "BTF"; "" for a scalar.
        dtypes: what is allowed; float32 or float64 where none is given. float64 serves gradient checks.
        like: a tensor whose device (and, among floats, dtype) it must share.
    """
    if x.ndim != len(axes):
        raise must(name, f"be {len(axes)}-D ({', '.join(axes)})", f"{x.ndim}-D")
    allowed = dtypes or FLOATS
    if x.dtype not in allowed:
        raise must(name, f"be {' or '.join(str(d).removeprefix('torch.') for d in allowed)}", str(x.dtype))
    if like is not None and x.device != like.device:
        raise must(name, f"be on {like.device}", str(x.device))
    if like is not None and not dtypes and x.dtype != like.dtype:
        raise must(name, f"be {like.dtype}", str(x.dtype))


def size(x: Tensor, name: str, axis: int, wanted: int, why: str) -> None:
    """Refuse a tensor whose `axis` is not `wanted` long."""
    if x.shape[axis] != wanted:
        raise must(name, f"have {wanted} on axis {axis} ({why})", x.shape[axis])


def shaped(x: Tensor, name: str, axes: str, sizes: tuple[int, ...], like: Tensor) -> None:
    """Refuse a tensor whose rank, dtype or device is not `like`'s kind, or whose sizes are not `sizes`."""
    tensor(x, name, axes, like=like)
    for axis, wanted in enumerate(sizes):
        size(x, name, axis, wanted, axes[axis])


def clock(step: Tensor, like: Tensor, end: int = 2**31) -> None:
    """Refuse a step that is not an int64 scalar on `like`'s device, or on a CPU is not from 0 to end - 1.

    On a GPU reading it would make the host wait; the kernels keep inside their tensors whatever it says.
    """
    tensor(step, "step", "", int64, like=like)
    if step.device.type == "cpu" and not 0 <= int(step) < end:
        raise must("step", f"be in [0, {end})", int(step))
