"""`make bench` and `make gpu-bench`: every benchmark in a fresh process, its table and its JSON in one folder.

`python -m benchmarks [--device cpu|cuda] [--out build/bench] [NAME …]`. `learning`, `specimens` and the sweep of the
portable functions take long and are run by name: `python -m benchmarks.learning`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
OUT = "OUT"
"""Stands for the JSON file among a benchmark's words."""
BENCHMARKS: dict[str, dict[str, tuple[str, ...]]] = {
    "cpu": {
        "step": (OUT, "--device", "cpu"),
        "threads": (OUT,),
        "products": (OUT,),
        "digests": (OUT,),
        "recording": (OUT,),
        "dumps": (OUT,),
        "track": (),
        "rollout": (OUT, "--batch", "128"),
        "market": (str(DATA),),
    },
    "cuda": {
        "step": (OUT, "--device", "cuda", "--batch", "128,4096"),
        "determinism": (OUT,),
        "kernels": (OUT,),
        "products": (OUT, "--device", "cuda"),
        "digests_cuda": (OUT,),
        "rollout": (OUT, "--device", "cuda"),
    },
}
"""Device -> module -> its words."""


def run(name: str, words: tuple[str, ...], folder: Path) -> bool:
    """Run one, show what it prints and keep it; whether it ended well."""
    print(f"== {name}", flush=True)
    out = str((folder / f"{name}.json").resolve())
    command = [sys.executable, "-m", f"benchmarks.{name}", *(out if word == OUT else word for word in words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    (folder / f"{name}.txt").write_text(done.stdout, encoding="utf-8")
    return done.returncode == 0


def main() -> int:
    """Run each in turn; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--device", default="cpu", choices=sorted(BENCHMARKS))
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    words = parser.parse_args()
    known = BENCHMARKS[words.device]
    if unknown := sorted(set(words.names) - set(known)):
        parser.error(f"NAME must be one of {', '.join(known)}, got {', '.join(unknown)}")
    folder = words.out / words.device
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in words.names or known:
        if name == "market" and not DATA.is_dir():
            print(f"== market: no data at {DATA}, not measured", file=sys.stderr)
        elif not run(name, known[name], folder):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
