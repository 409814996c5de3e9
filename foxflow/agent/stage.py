"""Stages: the learning pass cut into pieces that read and make buffers by name.

A run walks through all of them in order; a proof replays a single one from what a record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from foxflow.config import Shape

Named = Mapping[str, Tensor]
"""Tensors by name: of a buffer, of a weight's key, or of what no record holds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One piece: the names that it makes, in order, and how.

    `run(w, s, x)` is given the weights by key, the sizes, and what was made before by name.
    """

    makes: tuple[str, ...]
    run: Callable[[Named, Shape, Named], tuple[Tensor, ...]]


def walk(stages: Iterable[Stage], w: Named, s: Shape, x: dict[str, Tensor]) -> None:
    """Run stages in order; what each makes is added to `x`, where the later ones find it."""
    for stage in stages:
        x.update(zip(stage.makes, stage.run(w, s, x), strict=True))
