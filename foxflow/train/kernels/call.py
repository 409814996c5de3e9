"""One replay under way: the inputs by key, and what the stages find by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from foxflow.config import Shape
from foxflow.train.dataflow import Buffer
from foxflow.train.kernels.setting import Setting


@dataclass(frozen=True, slots=True)
class Call:
    """A buffer to be made at a step and iteration, from inputs by key; they are never changed."""

    setting: Setting
    buffer: Buffer
    step: int
    k: int | None
    inputs: Mapping[str, Tensor]

    def __getitem__(self, key: str) -> Tensor:
        return self.inputs[key]

    @property
    def shape(self) -> Shape:
        """Sizes of the run."""
        return self.setting.config.shape

    def clock(self, back: int = 0) -> Tensor:
        """The number of the step, or of the one `back` before it, as the operators read it."""
        return torch.tensor(self.step - back, device=self.setting.device)

    def own(self, key: str, start: Callable[[], Tensor]) -> Tensor:
        """A copy of an input to be changed in place; where there is none, as in the first step, its start."""
        return self.inputs[key].clone() if key in self.inputs else start()


class Found(Mapping[str, Tensor]):
    """Tensors by name, looked up as they are read."""

    def __init__(self, find: Callable[[str], Tensor]) -> None:
        self._find = find

    def __getitem__(self, name: str) -> Tensor:
        return self._find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
