"""`make bench`: the benchmarks of a minute. `benchmarks.learning` takes longer and is run by name."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import market, threads, track

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def main() -> None:
    """Run each in turn."""
    print("== a training step on 1 and 2 threads")
    threads.main()
    print("== logging of metrics")
    track.main()
    if DATA.is_dir():
        print("== market readers")
        market.main(DATA)
    else:
        print(f"== market readers: no data at {DATA}, not measured", file=sys.stderr)


if __name__ == "__main__":
    main()
