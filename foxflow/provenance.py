"""What made a run: a digest of foxflow's own sources, the git commit, and the machine in few words. Loads no torch."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
GIT_SECONDS = 5
"""What git may take for one answer; a checkout that needs longer counts as changed."""


@cache
def source_digest() -> str:
    """SHA-256 over the names and contents of foxflow's Python files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


@cache
def git_state() -> tuple[str, str] | None:
    """(commit, digest of what differs from it, "" where nothing does) of foxflow's checkout; None outside one."""
    top = _git(PACKAGE, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()) != PACKAGE.parent:
        return None
    return checkout(PACKAGE.parent, "foxflow", "cuda_ext")


def checkout(folder: Path, *below: str) -> tuple[str, str] | None:
    """(commit, digest of what differs from it, "" where nothing does) of a folder's git checkout.

    Args:
        folder: in the checkout.
        below: what of it counts, relative to `folder`; all of it by default.

    Returns:
        None outside a checkout, or where git is missing; ("…", "unknown") where it does not say what changed.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(folder, "diff", "HEAD", "--", *below)
    added = _git(folder, "ls-files", "--others", "--exclude-standard", "--", *below)
    if changed is None or added is None:
        return commit.strip(), "unknown"
    return commit.strip(), hashlib.sha256((changed + added).encode()).hexdigest()[:16] if changed + added else ""


def _git(folder: Path, *words: str) -> str | None:
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def machine() -> dict[str, str]:
    """Device, driver, CUDA, torch, SIMD level and threads. Asks torch only where it is loaded, starts no device."""
    torch = sys.modules.get("torch")
    gpus = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    found = {
        "device": _line(gpus[0], r"Model:\s*(.+)") if gpus else platform.machine(),
        "driver": _line(Path("/proc/driver/nvidia/version"), r"Kernel Module\D*?\s([\d.]+)\s"),
        "cuda": torch.version.cuda if torch else None,
        "torch": torch.__version__ if torch else _version("torch"),
        "simd": torch.backends.cpu.get_cpu_capability() if torch else _simd(),
        "threads": str(torch.get_num_threads() if torch else len(os.sched_getaffinity(0))),
    }
    return {name: value for name, value in found.items() if value}


def _line(path: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return None
    return found[1].strip() if found else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor_flags() -> frozenset[str]:
    """What Linux says that the processor offers, such as avx2; empty where it does not say."""
    return frozenset((_line(Path("/proc/cpuinfo"), r"flags\s*:(.+)") or "").split())


def _simd() -> str:
    """In torch's words."""
    flags = processor_flags()
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"


def identity(facts: dict[str, object]) -> str:
    """One digest over what two runs must share to be twins.

    Args:
        facts: JSON values: seed, config, source, data, arithmetic, capture set.
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
