"""What the run's page shows of its record: a bounded table of digests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from foxflow.flow import TRAIN, Record

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 20_000
"""At most this many rows go into checksums.json; a browser has to show them."""

_COLUMNS = ("step", "phase", "group", "buffer", "digest")


def table(record: Record) -> bytes:
    """Digests of the first two train steps and of the last one, in `log_table`'s JSON, for the compare page.

    MLflow's artifact view gathers rows by the first column and shows the second of each run beside it, so the first
    names the row and the second is its digest, cut to `fx1:` and 16 digits. Of a buffer captured several times in a
    step the last k is shown.
    """
    kept: dict[int, dict[tuple[str, str], str]] = {}
    for batch in record.digests():
        _keep(batch, kept)
    rows = [
        (f"step {step}, {group}, {buffer}", digest[:20], step, TRAIN, group, buffer)
        for step in sorted(kept)
        for (group, buffer), digest in kept[step].items()
    ]
    return json.dumps({"columns": ("where", "digest", *_COLUMNS[:-1]), "data": rows[:ROWS]}).encode()


def _keep(batch: pa.RecordBatch, kept: dict[int, dict[tuple[str, str], str]]) -> None:
    """Add a batch's wanted steps to `kept`: the two lowest and the highest seen so far."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chosen = pa.Table.from_batches([batch]).select(list(_COLUMNS))
    chosen = chosen.filter(pc.equal(chosen["phase"], TRAIN))
    steps = sorted({*kept, *chosen["step"].unique().to_pylist()})
    wanted = {*steps[:2], *steps[-1:]}
    for gone in set(kept) - wanted:
        del kept[gone]
    chosen = chosen.filter(pc.is_in(chosen["step"], pa.array(sorted(wanted), chosen.schema.field("step").type)))
    for row in chosen.to_pylist():
        kept.setdefault(row["step"], {})[row["group"], row["buffer"]] = row["digest"]
