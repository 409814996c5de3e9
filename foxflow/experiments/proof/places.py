"""Places of a run: what was recorded there, which dumps hold its bytes, and from which places it is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foxflow import flow

if TYPE_CHECKING:
    from foxflow.train.dataflow import Buffer


PHASES = (flow.TRAIN, flow.EVAL, flow.FINAL)


class Place(NamedTuple):
    """One buffer at one moment of a run."""

    phase: str
    step: int
    k: int | None
    buffer: str

    def __str__(self) -> str:
        inner = "" if self.k is None else f", k {self.k}"
        phase = "" if self.phase == flow.TRAIN else f"{self.phase} "
        return f"{self.buffer} at {phase}step {self.step}{inner}"


Digests = dict[Place, str]


def place_of(where: flow.Where) -> Place:
    """A place of a comparison or an explanation."""
    return Place(where.phase, where.step, where.k, where.buffer)


def recorded(record: flow.Record, steps: Iterable[int]) -> Digests:
    """The digests of some steps, in the order of the run."""
    wanted, found = sorted(set(steps)), Digests()
    for batch in record.digests():
        numbers = batch.column("step").to_numpy(zero_copy_only=False)
        at = np.flatnonzero(np.isin(numbers, wanted))
        if at.size:
            found |= dict(_rows(batch.slice(int(at[0]), int(at[-1] - at[0]) + 1), wanted))
    return found


def _rows(batch: Any, wanted: list[int]) -> Iterator[tuple[Place, str]]:
    columns = [batch.column(name).to_pylist() for name in ("phase", "step", "k", "buffer", "digest")]
    for phase, step, k, buffer, digest in zip(*columns, strict=True):
        if step in wanted:
            yield Place(phase, step, k, buffer), digest


def dumped(record: flow.Record, places: Iterable[Place]) -> Iterator[tuple[Place, str, tuple[int, ...], Any]]:
    """Those of some places whose bytes a record holds: place, dtype, shape, and the bytes as a buffer."""
    wanted = set(places)
    for phase, step in record.dump_steps:
        if not any((place.phase, place.step) == (phase, step) for place in wanted):
            continue
        for batch in record.dump(phase, step):
            columns = [batch.column(name).to_pylist() for name in ("k", "buffer", "dtype", "shape")]
            for i, (k, buffer, dtype, shape) in enumerate(zip(*columns, strict=True)):
                place = Place(phase, step, k, buffer)
                if place in wanted:
                    yield place, dtype, tuple(json.loads(shape)), batch.column("data")[i].as_buffer()


class Graph:
    """The dataflow of the reference trainer, unrolled over steps and iterations.

    Args:
        manifest: of a record of `foxflow run`.
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        import torch

        from foxflow.train import kernels
        from foxflow.train.dataflow import buffers

        cpu = torch.device("cpu")
        self._settings = {phase: kernels.setting_of(manifest, cpu, phase) for phase in PHASES}
        config = self._settings[flow.TRAIN].config
        self.steps = config.steps
        self._buffers = {(b.name, b.at == "k"): b for b in buffers(config.shape)}

    def buffer(self, place: Place) -> Buffer | None:
        """The row of the dataflow that a place is captured by; None where there is none."""
        return self._buffers.get((place.buffer, place.k is not None))

    def begun(self, place: Place) -> bool:
        """Whether the place is made as the run starts: from seed, config or file, not by a kernel."""
        row = self.buffer(place)
        return place.step == 0 and row is not None and (row.starts is not None or not row.inputs)

    def inputs(self, place: Place) -> list[tuple[str, Place]]:
        """What a place is made from: the name under which its producer reads it, and where that was captured."""
        from foxflow.train import kernels

        read = kernels.inputs_of(self._settings[place.phase], place.buffer, place.step, place.k)
        return [(one.key, Place(one.phase, one.step, one.k, one.name)) for one in read]

    def siblings(self, place: Place, among: Iterable[Place]) -> list[Place]:
        """Places of the same step that the same row's producers make, in any iteration."""
        row = self.buffer(place)
        return [
            other
            for other in among
            if (other.phase, other.step) == (place.phase, place.step)
            and row is not None
            and (one := self.buffer(other)) is not None
            and (one.row, one.producers, one.at) == (row.row, row.producers, row.at)
        ]

    def digested_inputs(self, place: Place, digests: Digests) -> list[Place]:
        """The inputs of a place; one without a digest is taken apart into its own inputs."""
        found: dict[Place, None] = {}
        waiting = [one for _, one in self.inputs(place)]
        while waiting:
            one = waiting.pop(0)
            if one in digests:
                found[one] = None
            else:
                waiting += [other for _, other in self.inputs(one)]
        return list(found)
