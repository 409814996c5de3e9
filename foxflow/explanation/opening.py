"""What `explain` starts from: records, and their comparison.

A stage imports no other stage: opening and comparing go through the package's table of public names, which loads the
rooms `record` and `comparison` only when they are called.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import foxflow
from foxflow import flow

Given = flow.Record | str | Path


def opened(record: Given) -> flow.Record:
    """The record itself, or the one in a folder.

    Raises:
        NoRecord: there is no record at the path.
        CorruptRecord: its manifest can't be read as one.
    """
    if isinstance(record, flow.Record):
        return record
    found: flow.Record = foxflow.open_record(record)
    return found


def compared(a: Given, b: Given, allow: tuple[str, ...]) -> flow.Comparison:
    """The comparison of two records, as `foxflow.compare` makes it."""
    found: flow.Comparison = foxflow.compare(a, b, allow=allow)
    return found


def comparison_json(comparison: flow.Comparison) -> dict[str, Any]:
    """A comparison in the words of its own room, which the contract of `explain` adds to."""
    found: dict[str, Any] = importlib.import_module("foxflow.comparison").as_json(comparison)
    return found
