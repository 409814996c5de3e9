"""What code made a run: a digest of foxflow's own sources, and the git commit where there is one."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


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
    inside = _git("rev-parse", "--show-toplevel")
    commit = _git("rev-parse", "HEAD")
    if inside is None or commit is None or Path(inside.strip()) != PACKAGE.parent:
        return None
    changes = (_git("diff", "HEAD", "--", "foxflow", "cuda_ext") or "") + (
        _git("ls-files", "--others", "--exclude-standard", "--", "foxflow", "cuda_ext") or ""
    )
    return commit.strip(), hashlib.sha256(changes.encode()).hexdigest()[:16] if changes else ""


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def identity(facts: dict[str, object]) -> str:
    """One digest over what two runs must share to be twins.

    Args:
        facts: JSON values: seed, config, source, data, arithmetic, capture set.
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
