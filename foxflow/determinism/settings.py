"""The settings that fix torch's bits, set before a run and recorded with it."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib import metadata

import torch

ARITHMETIC = "1"
"""Version of the arithmetic in cuda_ext; another one gives other bits, so other fingerprints."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""

ENVIRONMENT_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "FOXFLOW_SIMD",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TZ",
)
"""Variables that can move bits; no other is read or recorded, for it may hold a secret."""


def fix(threads: int | None = None) -> None:
    """Switch on everything in torch that makes bits repeat.

    Args:
        threads: of torch's CPU pool; left alone where None.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("highest")
    if threads is not None:
        torch.set_num_threads(threads)


def keep_memory() -> None:
    """Let glibc reuse large blocks instead of returning them to the kernel after each step; no bit depends on it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 1 << 30)


def environment(device: torch.device, gemm: str = "own") -> dict[str, object]:
    """What could explain other bits: versions, device, threads, switches and the variables of the allow-list.

    Args:
        device: where the run computes.
        gemm: who multiplies matrices there.
    """
    facts: dict[str, object] = {
        "arithmetic": ARITHMETIC,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "float_contract": "no fused or fast math",
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "digest": "fx1",
        "device": device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "variables": {name: os.environ[name] for name in ENVIRONMENT_VARIABLES if name in os.environ},
        "packages": {name: metadata.version(name) for name in ("numpy", "pyarrow")},
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["capability"] = ".".join(map(str, torch.cuda.get_device_capability(device)))
    if gemm != "own":
        facts["arithmetic"] = f"{ARITHMETIC}, {gemm} of torch {torch.__version__} on {facts['gpu']}"
    return facts
