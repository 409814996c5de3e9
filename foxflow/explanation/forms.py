"""The dtype and shape that the other record holds of a few buffers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foxflow import flow

Form = tuple[str, str]
"""dtype, and shape as JSON text."""


def forms(record: flow.Record, places: Iterable[flow.Where]) -> dict[flow.Where, Form]:
    """Read the forms of some places in one stream over a record's digests."""
    wanted = {(w.phase, w.step, w.k, w.buffer): w for w in places}
    steps = np.array(sorted({step for _, step, _, _ in wanted}), np.int64)
    found: dict[flow.Where, Form] = {}
    for batch in record.digests():
        at = np.flatnonzero(np.isin(batch.column("step").to_numpy(zero_copy_only=False), steps))
        if not len(at):
            continue
        rows = batch.take(at)
        columns = (rows.column(name).to_pylist() for name in ("phase", "step", "k", "buffer", "dtype", "shape"))
        for *key, dtype, shape in zip(*columns, strict=True):
            if (where := wanted.get(tuple(key))) is not None:
                found[where] = (dtype, shape)
        if len(found) == len(wanted):
            break
    return found
