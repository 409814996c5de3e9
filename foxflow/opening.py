"""What `compare` and `explain` are given, as records.

A stage imports no other stage, yet callers hold paths: opening goes through the package's table of public names,
which loads room `record` only when a path comes.
"""

from __future__ import annotations

from pathlib import Path

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
