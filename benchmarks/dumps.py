"""Dumps and digests on disk: write rate against torch.save and safetensors, compare's rate warm, and its peak memory.

`python -m benchmarks.dumps [OUT.json]`. The tensors are those of a step of the trainer at default shapes. Writers take
turns; each hands its file to the disk (fsync); foxflow's time includes the copy that a capture makes first. Rates of
compare are of the second reading and those after it, its peak memory is that of a fresh process; two sizes of record
show what grows.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import table
from benchmarks.table import Spread
from foxflow import flow
from foxflow.capture import host_bytes
from foxflow.comparison import compare
from foxflow.config import DUMP_FLAGS, Config, Recording
from foxflow.determinism import settings
from foxflow.experiments.run import Options, load_tape
from foxflow.record import Writer, open_record
from foxflow.train.trainer import Trainer

ROUNDS = 9
DUMP_STEPS = (1, 6)
"""Dumped steps of the small and the large record."""
DIGEST_STEPS = (1_000, 6_000)
"""Steps with digests alone."""
PEAK = """
import re, sys
from pathlib import Path
from foxflow.comparison import compare
from foxflow.record import open_record
assert compare(*map(open_record, sys.argv[1:])).verdict == "EQUAL"
print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""
"""Kibibytes; getrusage would count the memory of the process that started it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `unit` says of what."""

    what: str
    size: str
    unit: str
    value: Spread


def taken(groups: str) -> flow.Step:
    """A step of the trainer with the bytes of some groups."""
    config, recording = Config(seed=42, steps=200), Recording(dump_groups=groups, dump_steps=(3, 4))
    tape = load_tape(Options(config=config, recording=recording))
    *_, step = Trainer(config, recording, tape, torch.device("cpu")).run(stop_at=4)
    return step


def written(folder: Path, steps: Iterator[flow.Step]) -> Path:
    """A record of steps."""
    with Writer(folder, manifest=manifest()) as writer:
        for step in steps:
            writer.write(step)
        writer.close({})
    return folder


def manifest() -> dict[str, object]:
    """Of a record that nobody made by a run."""
    facts = dict.fromkeys(("source", "data", "dataflow", "environment", "arithmetic", "command"), "")
    return facts | {"seed": 42, "config": {}, "capture": {"names": None, "thinned": False}}


def writing(step: flow.Step, groups: str, folder: Path) -> list[Row]:
    """Seconds from tensors in memory to a file on the disk, as bytes a second."""
    kept = [b for b in step.buffers if b.data is not None]
    tensors = {f"{b.k}.{b.buffer}": tensor(b) for b in kept}
    size = sum(b.nbytes for b in kept)
    numbers = iter(range(1_000_000))

    def foxflow() -> None:
        fresh = (replace(b, data=host_bytes(x)) for b, x in zip(kept, tensors.values(), strict=True))
        number = next(numbers)
        with Writer(folder / f"written-{number}", manifest=manifest()) as writer:
            began = time.perf_counter()
            writer.write(flow.Step(step=0, phase=flow.TRAIN, buffers=flow.Buffers.of(fresh)))
            seconds["foxflow"].append(time.perf_counter() - began)
        shutil.rmtree(folder / f"written-{number}")

    writers: dict[str, Callable[[], None]] = {"torch.save": functools.partial(save, torch.save, tensors, folder)}
    if importlib.util.find_spec("safetensors"):
        save_file = importlib.import_module("safetensors.torch").save_file
        writers["safetensors"] = functools.partial(save, save_file, tensors, folder)
    seconds: dict[str, list[float]] = {name: [] for name in ("foxflow", *writers)}
    for _ in range(ROUNDS):
        foxflow()
        for name, write in writers.items():
            began = time.perf_counter()
            write()
            seconds[name].append(time.perf_counter() - began)
    shown = f"{size / 1e6:.0f} MB, {groups}"
    return [
        Row(f"write, {name}", shown, "GB/s", Spread.of([size / s / 1e9 for s in all_]))
        for name, all_ in seconds.items()
    ]


def save(write: Callable[[dict[str, Tensor], Path], object], tensors: dict[str, Tensor], folder: Path) -> None:
    """Write one file and bring it to the disk."""
    path = folder / "saved"
    write(tensors, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def tensor(b: flow.Captured) -> Tensor:
    """A dumped buffer as a tensor."""
    return torch.frombuffer(bytearray(b.data or b""), dtype=TORCH[b.dtype]).view(b.shape)


TORCH = {"f32": torch.float32, "i32": torch.int32, "u8": torch.uint8, "u32": torch.uint32, "i64": torch.int64}


def comparing(pair: tuple[Path, Path], amount: float, what: str, size: str, unit: str) -> list[Row]:
    """Rate of compare once the files are in memory, and its peak memory in a fresh process."""
    seconds = []
    for _ in range(ROUNDS // 2 + 1):
        began = time.perf_counter()
        found = compare(*map(open_record, pair))
        seconds.append(time.perf_counter() - began)
        if found.verdict != flow.EQUAL:
            raise RuntimeError(f"copies of one record must be EQUAL, got {found.verdict}: {found.reason}")
    peaks = [int(subprocess.check_output([sys.executable, "-c", PEAK, *map(str, pair)])) / 1024 for _ in range(2)]
    rates = Spread.of([amount / s for s in seconds[1:]])
    return [Row(what, size, unit, rates), Row(f"{what}: peak memory", size, "MB", Spread.of(peaks))]


def pair_of(folder: Path, name: str, step: flow.Step, steps: int) -> tuple[Path, Path]:
    """Two records with the same steps."""
    made = [written(folder / f"{name}-{steps}-{side}", stamped(step, steps)) for side in "ab"]
    return made[0], made[1]


def stamped(step: flow.Step, steps: int) -> Iterator[flow.Step]:
    """One step again and again, with numbers."""
    return (replace(step, step=number, diag=None) for number in range(steps))


def all_rows(folder: Path) -> list[Row]:
    """Every measurement."""
    backward, everything = taken(DUMP_FLAGS["backward"]), taken(DUMP_FLAGS["all"])
    rows = writing(backward, "--dump backward", folder) + writing(everything, "--dump all", folder)
    dumped = sum(b.nbytes for b in everything.buffers if b.data is not None)
    for steps in DUMP_STEPS:
        pair, both = pair_of(folder, "dumps", everything, steps), 2 * steps * dumped / 1e9
        rows += comparing(pair, both, "compare, dumps", f"2 x {both / 2:.2f} GB", "GB/s")
        for path in pair:
            shutil.rmtree(path)
    bare = replace(everything, buffers=replace(everything.buffers, data=None))
    for steps in DIGEST_STEPS:
        pair, each = pair_of(folder, "digests", bare, steps), steps * len(bare.buffers) / 1e6
        rows += comparing(pair, each, "compare, digests", f"2 x {each:.2f} M rows", "M pairs of rows/s")
        for path in pair:
            shutil.rmtree(path)
    return rows


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    words = parser.parse_args()
    settings.keep_memory()
    with tempfile.TemporaryDirectory(prefix="foxflow-dumps-") as folder:
        rows = all_rows(Path(folder))
    table.show(("what", "size", "median (quartiles)", ""), [(r.what, r.size, r.value.text(), r.unit) for r in rows])
    table.write(words.out, "cpu", rows)


if __name__ == "__main__":
    main()
