"""Is this machine fit for foxflow? Build, devices, versions, and a sample of operators against their references."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

PACKAGES = ("torch", "numpy", "pyarrow", "mlflow", "great-expectations", "databento-dbn")


def examine() -> dict[str, Any]:
    """Look at everything a run needs.

    Returns:
        Facts by name, `operators` with the error of each against its bound, and `ok`.
    """
    import torch

    from foxflow import digest, ops
    from foxflow.determinism import settings

    settings.fix()
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() and ops.has_cuda() else [])]
    operators = [_measured(name, device, *twins) for device in devices for name, twins in _operators(device).items()]
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{package: _version(package) for package in PACKAGES},
        "threads": torch.get_num_threads(),
        "cuda_kernels": ops.has_cuda(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "digest": "compiled" if digest.compiled_sums(b"") is not None else "numpy",
        "operators": operators,
        "ok": all(op["ok"] for op in operators),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _measured(
    name: str, device: str, compiled: Callable[[], Any], reference: Callable[[], Any], bound: float
) -> dict[str, Any]:
    got, want = compiled().detach().cpu().double(), reference().detach().cpu().double()
    error = float((got - want).abs().max() / want.abs().max().clamp_min(1e-30))
    return {"name": name, "device": device, "error": error, "bound": bound, "ok": error <= bound}


def _operators(device: str) -> dict[str, tuple[Callable[[], Any], Callable[[], Any], float]]:
    """A sample of every family: compiled, reference, and the bound of their relative difference."""
    import torch

    from foxflow.ops import encoder, learn, linalg, losses
    from foxflow.reference import encoder as encoder_reference
    from foxflow.reference import heads as heads_reference
    from foxflow.reference import learn as learn_reference
    from foxflow.reference import linalg as linalg_reference

    g = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(device)

    a, b, bias = draw(64, 56), draw(56, 56), draw(56)
    x, gain = draw(8, 16, 56), draw(56)
    logits, label = draw(32, 3), torch.randint(-1, 3, (32,), generator=g, dtype=torch.int32).to(device)
    flat = draw(1000)
    return {
        "matmul": (lambda: linalg.matmul(a, b, bias), lambda: linalg_reference.matmul(a, b, bias), 2e-6),
        "vsn": (lambda: encoder.vsn_fwd(x, b, bias)[1], lambda: encoder_reference.vsn(x, b, bias)[1], 1e-5),
        "layer_norm": (
            lambda: encoder.layer_norm_fwd(a, a, gain, bias)[0],
            lambda: encoder_reference.layer_norm(a, a, gain, bias)[0],
            1e-5,
        ),
        "outcome_loss": (
            lambda: losses.outcome_loss(logits, label)[0],
            lambda: heads_reference.outcome_loss(logits, label)[0],
            1e-5,
        ),
        "group_norm": (
            lambda: learn.group_norm(flat, [0, 1000]),
            lambda: learn_reference.group_norm(flat, [0, 1000]),
            2e-6,
        ),
    }
