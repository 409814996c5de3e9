"""foxflow answers, to the last bit: is a training run with the same seed the same run?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from foxflow.comparison import compare as compare
    from foxflow.explanation import explain as explain
    from foxflow.record import open_record as open_record

_PUBLIC = {
    "compare": "foxflow.comparison",
    "explain": "foxflow.explanation",
    "open_record": "foxflow.record",
}
"""Public name -> the module that defines it; loaded at first use."""

__all__ = ["__version__", "compare", "explain", "open_record"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'foxflow' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
