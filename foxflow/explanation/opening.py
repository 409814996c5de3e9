"""The comparison that `explain` starts from.

A stage imports no other stage: comparing goes through the package's table of public names, which loads the room
`comparison` only when it is called.
"""

from __future__ import annotations

import importlib
from typing import Any

import foxflow
from foxflow import flow
from foxflow.opening import Given


def compared(a: Given, b: Given, allow: tuple[str, ...]) -> flow.Comparison:
    """The comparison of two records, as `foxflow.compare` makes it."""
    found: flow.Comparison = foxflow.compare(a, b, allow=allow)
    return found


def comparison_json(comparison: flow.Comparison) -> dict[str, Any]:
    """A comparison in the words of its own room, which the contract of `explain` adds to."""
    found: dict[str, Any] = importlib.import_module("foxflow.comparison").as_json(comparison)
    return found
