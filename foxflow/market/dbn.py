"""Databento's binary format, versions 1 to 3: the metadata by the vendor's decoder, the records as one numpy array."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import BadData, Mistake, must
from foxflow.market.book import Ints64
from foxflow.market.content import Content, ahead, pieces
from foxflow.market.instrument import guess
from foxflow.market.reading import Block, Layout, Reading

if TYPE_CHECKING:
    from databento_dbn import Metadata

_MBO = 160
_AGAIN = "Download it again."
_LEVELS = {10: 10, 1: 1}
"""Record type -> levels of its book; the types that hold one, the deepest first."""
_NAMES = {0: "trades", 1: "mbp-1", 10: "mbp-10", 160: "mbo"}
_HEAD, _LEVEL_BYTES = 48, 32
_PIECE = 1 << 20
"""Bytes unpacked at a time: few enough to stay in the processor's cache."""


def read(content: Content, select: str | None) -> Reading:
    """Read the book records of a file.

    A file that states one schema must hold that kind of record alone; in a live capture, which states none, the
    deepest kind of book is taken and the other records are counted.

    Args:
        content: the unpacked file.
        select: the instrument id or symbol to read from a file of several; None where there is one.

    Raises:
        BadData: no books, no records, a record cut short or of a stray type, several instruments and none selected.
    """
    stream = ahead(pieces(content, _PIECE))
    metadata, stored, rest = _metadata(content.name, stream)
    schema = None if metadata.schema is None else str(metadata.schema)
    if schema not in (None, "mbp-10", "mbp-1"):
        raise _bookless(content.name, "orders" if schema == "mbo" else schema)
    first = rest or next(stream, b"")
    if not first:
        raise must(content.name, "hold records", "a file with metadata and no records", _AGAIN, BadData)
    chosen = _Chosen(content.name, select, metadata)
    skipped: tuple[tuple[str, int, int], ...] = ()
    if schema is None:
        kind, found, skipped = _gathered(content.name, b"".join(chain((first,), stream)))
        blocks = _blocks(chosen, iter((found,)), _LEVELS[kind])
    else:
        kind = next(kind for kind, name in _NAMES.items() if name == schema)
        blocks = _blocks(chosen, _streamed(content.name, chain((first,), stream), kind), _LEVELS[kind])
    symbol = metadata.symbols[0] if len(metadata.symbols) == 1 else select or ""
    return Reading(
        format="dbn",
        note=f"DBN version {stored}, {schema or 'live capture, ' + _NAMES[kind]}",
        files=(content,),
        layout=Layout(file=content.name, row_word="record", column=_column, price_nanos=1),
        levels=_LEVELS[kind],
        blocks=blocks,
        guess=guess(metadata.dataset, symbol),
        skipped=skipped,
    )


def _bookless(file: str, holds: str) -> Mistake:
    return must(file, "hold books", f"a file that holds {holds}, no books", "Ask Databento for schema mbp-10.", BadData)


def _metadata(file: str, stream: Iterator[bytes]) -> tuple[Metadata, int, bytes]:
    """The metadata, the version byte as stored, and the first bytes of the records."""
    from databento_dbn import DBNError, Metadata

    data = next(stream, b"")
    size = 8 + int.from_bytes(data[4:8], "little")
    while len(data) < size and (more := next(stream, b"")):
        data += more
    try:
        if size > len(data):
            raise ValueError(f"{size} bytes announced, {len(data)} there")
        return Metadata.decode(data[:size]), data[3], data[size:]
    except (DBNError, ValueError) as error:
        raise must(file, "begin with DBN metadata of version 1, 2 or 3", str(error), _AGAIN, BadData) from None


_Found = tuple[NDArray[Any], Ints64]
"""Book records, and the number of each in the file, counted from 1."""


def _streamed(file: str, stream: Iterator[bytes], kind: int) -> Iterator[_Found]:
    """The records of a file that holds one kind, piece by piece."""
    number, rest = 0, b""
    for piece in stream:
        data = rest + piece if rest else piece
        size = 4 * data[0]
        whole = len(data) - len(data) % size if size else 0
        body = np.frombuffer(data, np.uint8, whole)
        if not whole or (body[::size] != data[0]).any() or (body[1::size] != kind).any():
            whole = _check_kinds(file, data, number, kind)
            body = body[:whole]
        if whole:
            records = body.view(_dtype(file, size, kind))
            yield records, np.arange(number + 1, number + 1 + len(records), dtype=np.int64)
            number += len(records)
        rest = data[whole:]
    if rest:
        raise must(
            file,
            "end with a whole record",
            f"{number} whole records and {len(rest)} bytes left over",
            _AGAIN,
            BadData,
        )


def _check_kinds(file: str, data: bytes, number: int, kind: int) -> int:
    """Refuse a record of another kind; else say how many bytes hold whole records."""
    end = 0
    for later, (at, found) in enumerate(_walk(file, data, number), 1):
        if found != kind or data[at] != data[0]:
            raise must(
                f"{file}: record {number + later}",
                f"be of the file's schema {_NAMES[kind]} and of one length",
                f"record type {found} ({_NAMES.get(found, 'not a book')}), {4 * data[at]} bytes",
                _AGAIN,
                BadData,
            )
        end = at + 4 * data[at]
    return end


def _gathered(file: str, data: bytes) -> tuple[int, _Found, tuple[tuple[str, int, int], ...]]:
    """The deepest kind of book in a file of mixed records, its records, and what else there is."""
    places = list(_walk(file, data, 0))
    kinds = {kind for _, kind in places}
    kind = next((kind for kind in _LEVELS if kind in kinds), -1)
    if kind < 0:
        raise _bookless(file, "orders" if _MBO in kinds else f"records of types {sorted(kinds)}")
    mine = [(number, at) for number, (at, found) in enumerate(places, 1) if found == kind]
    others = [number for number, (_, found) in enumerate(places, 1) if found != kind]
    size = 4 * data[mine[0][1]]
    body = b"".join(data[at : at + size] for _, at in mine)
    records = np.frombuffer(body, _dtype(file, size, kind))
    numbers = np.array([number for number, _ in mine], np.int64)
    return kind, (records, numbers), (("other_record", len(others), others[0]),) if others else ()


def _walk(file: str, data: bytes, before: int) -> Iterator[tuple[int, int]]:
    """(offset, record type) of each whole record, by the length that each begins with."""
    at = number = 0
    while at < len(data) and at + 4 * data[at] <= len(data):
        number += 1
        if data[at] < 4:
            raise must(f"{file}: record {before + number}", "be 16 bytes long or more", 4 * data[at], _AGAIN, BadData)
        yield at, data[at + 1]
        at += 4 * data[at]


def _dtype(file: str, size: int, kind: int) -> np.dtype[Any]:
    """The layout of one book record of `size` bytes."""
    if size < _HEAD + _LEVEL_BYTES * _LEVELS[kind]:
        raise must(
            file,
            f"hold {_NAMES[kind]} records of {_HEAD + _LEVEL_BYTES * _LEVELS[kind]} bytes",
            size,
            _AGAIN,
            BadData,
        )
    level = np.dtype([("bid_px", "<i8"), ("ask_px", "<i8"), ("bid_sz", "<u4"), ("ask_sz", "<u4"), ("ct", "<u4", 2)])
    return np.dtype(
        {
            "names": ["instrument_id", "ts_recv", "levels"],
            "formats": ["<u4", "<i8", (level, _LEVELS[kind])],
            "offsets": [4, 32, _HEAD],
            "itemsize": size,
        }
    )


class _Chosen:
    """Which records are of the one instrument that is read."""

    def __init__(self, file: str, select: str | None, metadata: Metadata) -> None:
        self._file, self._select, self._one = file, select, list(metadata.symbols) == [select]
        self._names = {
            int(entry["symbol"]): symbol
            for symbol, entries in metadata.mappings.items()
            for entry in entries
            if entry["symbol"].isdigit()
        }
        self._seen: set[int] = set()

    def of(self, found: _Found) -> _Found:
        """The records to read; refuses a second instrument where none was selected."""
        records, number = found
        ids = records["instrument_id"]
        self._seen |= {int(ids[0])} if (ids == ids[0]).all() else set(np.unique(ids).tolist())
        if self._select is None or self._one:
            if len(self._seen) > 1:
                raise must(
                    self._file,
                    "hold one instrument",
                    " and ".join(f"id {i}" for i in sorted(self._seen)),
                    "Select one of them.",
                    BadData,
                )
            return found
        mine = np.isin(ids, [i for i in self._seen if self._select in (str(i), self._names.get(i))])
        return records[mine], number[mine]

    def check(self, rows: int) -> None:
        """Refuse a selection that met no record."""
        if not rows:
            held = ", ".join(map(str, sorted(self._seen)))
            raise must("select", f"be an instrument of {self._file}", repr(self._select), f"It holds {held}.", BadData)


def _blocks(chosen: _Chosen, stream: Iterator[_Found], levels: int) -> Iterator[Block]:
    rows = 0
    for found in stream:
        records, number = chosen.of(found)
        book = records["levels"]
        bid_px, bid_sz, ask_px, ask_sz = (
            [book[name][:, level] for level in range(levels)] for name in ("bid_px", "bid_sz", "ask_px", "ask_sz")
        )
        rows += len(records)
        yield Block(
            rows=number, ts=records["ts_recv"].copy(), bid_px=bid_px, bid_sz=bid_sz, ask_px=ask_px, ask_sz=ask_sz
        )
    chosen.check(rows)


def _column(side: str, what: str, level: int) -> str:
    return f"column {side}_{'px' if what == 'price' else 'sz'}_{level:02d}"
