"""Stages: the learning pass cut into pieces that read and make buffers by name.

A run walks through all of them in order; a proof replays a single one from what a record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from foxflow.config import Shape

Named = Mapping[str, Tensor]
"""Tensors by name: of a buffer, of a weight's key, or of what no record holds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One piece: the names that it makes, in order, and how.

    `run(w, s, x)` is given the weights by key, the sizes, and what was made before by name. What a stage `aside` makes
    is read by others aside only, until the pass is over.
    """

    makes: tuple[str, ...]
    run: Callable[[Named, Shape, Named], tuple[Tensor, ...]]
    aside: bool = False


def walk(
    stages: Iterable[Stage],
    w: Named,
    s: Shape,
    x: dict[str, Tensor],
    beside: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Run stages in order; what each makes is added to `x`, where the later ones find it.

    Args:
        stages: of one pass.
        w: weights by key.
        s: sizes.
        x: buffers by name; those of the pass are added.
        beside: where stages aside are launched (`Branch.beside`).
    """
    for aside, together in groupby(stages, key=lambda stage: stage.aside):
        with beside() if aside else nullcontext():
            for stage in together:
                x.update(zip(stage.makes, stage.run(w, s, x), strict=True))
