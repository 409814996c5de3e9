"""Which buffers a step captures, at which number in dataflow order, and whose bytes it keeps."""

from __future__ import annotations

from collections.abc import Callable

from foxflow import capture
from foxflow.config import Recording, Shape
from foxflow.train.dataflow import Buffer, buffers

LIGHT_LEAVES_OUT = "MI"
"""Groups without digests at --record light."""
EVAL_ROWS = range(7, 19)
FINAL_ROWS = range(1, 11)
ONLY_DUMPED = ("mamba_a_state", "mamba_b_state")
"""The largest activations: digested only where they are dumped, and no part of the fingerprint."""
ONCE = "X"
"""Group captured at load and in the closing snapshot."""

Slots = capture.Slots


class Plan:
    """Turns the dataflow table and the recording options into slots.

    Args:
        shape: sizes.
        recording: level, dumps.
        steps: training steps of the run; evaluation steps are numbered on from there.
    """

    def __init__(self, shape: Shape, recording: Recording, steps: int) -> None:
        self._recording, self._steps, self._inner = recording, steps, shape.K
        left_out = {"all": "", "light": LIGHT_LEAVES_OUT}.get(recording.level)
        self._all = () if left_out is None else tuple(b for b in buffers(shape) if b.group not in left_out)
        self._groups = {b.group for b in self._all}
        self._made: dict[tuple[object, ...], Slots] = {}

    def names(self) -> tuple[str, ...]:
        """The buffers that make the fingerprint, in dataflow order, each once."""
        return tuple(dict.fromkeys(b.name for b in self._all if b.name not in ONLY_DUMPED))

    def start(self, step: int) -> Slots:
        """Buffers captured before the inner loop (at s and e)."""
        return self._kept(("start", *self._like(step)), lambda: self._slots(self._before(step), 0, step))

    def inner(self, step: int, k: int) -> Slots:
        """Buffers captured in iteration k; unless dump_k is set, only the last iteration's bytes are kept."""

        def made() -> Slots:
            rows, kept = self._of(step, "k"), self._recording.dump_k or k == self._inner - 1
            return self._slots(rows, len(self._before(step)) + k * len(rows), step if kept else None)

        return self._kept(("inner", k, *self._like(step)), made)

    def end(self, step: int) -> Slots:
        """Buffers captured after the inner loop."""

        def made() -> Slots:
            before = len(self._before(step)) + self._inner * len(self._of(step, "k"))
            return self._slots(self._of(step, "l"), before, step)

        return self._kept(("end", *self._like(step)), made)

    def evaluation(self, step: int) -> Slots:
        """Buffers of an evaluation step."""

        def made() -> Slots:
            return self._slots([b for b in self._all if b.row in EVAL_ROWS and b.at in "se"], 0, step)

        return self._kept(("evaluation", *self._like(step)), made)

    def final(self) -> Slots:
        """Buffers of the closing snapshot, which is never dumped."""
        return self._slots([b for b in self._all if b.row in FINAL_ROWS and b.at == "s"], 0, None)

    def dumping(self, step: int) -> bool:
        """Whether a step keeps the bytes of any buffer."""
        return any(self.dumps(step, group) for group in self._groups)

    def dumps(self, step: int, group: str) -> bool:
        """Whether a group's bytes are kept at a step."""
        first, end = self._recording.dump_steps
        return first <= step < end and group in self._recording.dump_groups

    def verifies(self, step: int) -> bool:
        """Whether rings are held against their running sums after a step: every few, and after training's last."""
        every = self._recording.verify_every
        return every > 0 and ((step + 1) % every == 0 or step + 1 == self._steps)

    def _like(self, step: int) -> tuple[bool, bool]:
        """What tells steps of different slots apart: the first one, and whether bytes are kept."""
        return step == 0, self.dumping(step)

    def _kept(self, like: tuple[object, ...], make: Callable[[], Slots]) -> Slots:
        """Slots made once for all steps that are alike."""
        if like not in self._made:
            self._made[like] = make()
        return self._made[like]

    def _before(self, step: int) -> list[Buffer]:
        return self._of(step, "s") + self._of(step, "e")

    def _of(self, step: int, at: str) -> list[Buffer]:
        return [
            b
            for b in self._all
            if b.at == at
            and (b.group != ONCE or step == 0)
            and (b.name not in ONLY_DUMPED or self.dumps(step, b.group))
        ]

    def _slots(self, rows: list[Buffer], first: int, step: int | None) -> Slots:
        dumped = [b.name for b in rows if step is not None and self.dumps(step, b.group)]
        return capture.slots([(b.name, b.group) for b in rows], first, dumped)
