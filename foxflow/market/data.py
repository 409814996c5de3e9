"""Open a market file of any format that is read here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foxflow.market import databento_csv, dbn, lobster
from foxflow.market.book import Tape
from foxflow.market.content import open_content, recognise
from foxflow.market.instrument import NANOS, Instrument
from foxflow.market.reading import Reading
from foxflow.market.sieve import assemble


def load(
    path: str | Path,
    *,
    levels: int | None = None,
    instrument: Instrument | None = None,
    strict: bool = False,
    select: str | None = None,
) -> Tape:
    """Read a file into a tape; its format is told from its content.

    Args:
        path: a Databento file (DBN or CSV, MBP-10 or MBP-1, packed or not) or either file of a LOBSTER pair.
        levels: levels of the tape: missing ones are added empty, deeper ones are cut; None keeps the file's.
        instrument: what is traded; None lets the file tell.
        strict: refuse crossed or locked rows instead of dropping and counting them.
        select: instrument id or symbol, for a file of several.

    Raises:
        BadData: the file can't be used; names file, row and column.
    """
    return assemble(_read(Path(path), select), instrument=instrument, levels=levels, strict=strict)


def describe(
    path: str | Path,
    *,
    levels: int | None = None,
    instrument: Instrument | None = None,
    strict: bool = False,
    select: str | None = None,
) -> dict[str, Any]:
    """Say what a file holds, also one too short to train on.

    Args: as those of `load`.

    Returns:
        {"format", "rows", "levels", "dropped": {reason: rows}, "instrument", "tick", "from", "to", "note",
        "first_dropped": {reason: row}, "halted"}; from and to are ISO 8601 UTC with ns, None where no row is left;
        halted counts rows.

    Raises:
        BadData: as `load`.
    """
    tape = load(path, levels=levels, instrument=instrument, strict=strict, select=select)
    return {
        "format": tape.format,
        "rows": len(tape.ts),
        "levels": tape.levels,
        "dropped": dict(tape.dropped),
        "instrument": tape.instrument.name,
        "tick": tape.instrument.tick,
        "from": _iso(int(tape.ts[0])) if len(tape.ts) else None,
        "to": _iso(int(tape.ts[-1])) if len(tape.ts) else None,
        "note": tape.note,
        "first_dropped": dict(tape.first_dropped),
        "halted": sum(to - since for since, to in tape.halts),
    }


def _read(path: Path, select: str | None) -> Reading:
    content = open_content(path)
    kind = recognise(content, lobster.NAME.fullmatch(path.name) is not None)
    if kind == "dbn":
        return dbn.read(content, select)
    if kind == "databento_csv":
        return databento_csv.read(content, select)
    return lobster.read(path, content)


def _iso(ts: int) -> str:
    return f"{datetime.fromtimestamp(ts // NANOS, UTC):%Y-%m-%dT%H:%M:%S}.{ts % NANOS:09d}Z"
