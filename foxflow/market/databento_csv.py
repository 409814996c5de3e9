"""Databento's MBP records as CSV: columns by name, prices as decimals."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from foxflow.errors import BadData, must
from foxflow.market.book import Ints64
from foxflow.market.content import Content
from foxflow.market.instrument import Instrument, guess
from foxflow.market.reading import Block, Layout, Reading
from foxflow.market.text import Table, decimals, read_table

_LEVEL = re.compile(r"(?:bid|ask)_(?:px|sz)_(\d\d)")
_DATASETS = {1: "GLBX.MDP3", 2: "XNAS.ITCH"}
"""Databento's publisher ids of the two exchanges whose instruments are known here."""


def read(content: Content, select: str | None) -> Reading:
    """Read a file with a header.

    Args:
        content: the unpacked file.
        select: the instrument id or symbol to read from a file of several; None where there is one.

    Raises:
        BadData: a column is missing, there is no row or no book, a value can't be read, several instruments and none
            selected.
    """
    header = content.first_line.decode(errors="replace").split(",")
    levels = _levels(content.name, header)
    prices = [f"{side}_px_{level:02d}" for side in ("bid", "ask") for level in range(levels)]
    sizes = [name.replace("_px_", "_sz_") for name in prices]
    extra = [name for name in ("publisher_id", "instrument_id", "symbol") if name in header]
    table = _table(content, header, prices, sizes, extra)
    mine = _chosen(table, extra, select)
    bid_px, ask_px = ([table.decimal(name)[mine] for name in side] for side in (prices[:levels], prices[levels:]))
    bid_sz, ask_sz = ([table.integer(name)[mine] for name in side] for side in (sizes[:levels], sizes[levels:]))
    ts = table.integer("ts_recv")[mine]
    return Reading(
        format="databento_csv",
        files=(content,),
        layout=Layout(file=content.name, row_word="row", column=_column, price_nanos=1),
        levels=levels,
        blocks=[Block(rows=mine + 1, ts=ts, bid_px=bid_px, bid_sz=bid_sz, ask_px=ask_px, ask_sz=ask_sz)],
        guess=_guess(table, extra, mine),
    )


def _table(content: Content, header: list[str], prices: list[str], sizes: list[str], extra: Sequence[str]) -> Table:
    """The columns wanted, each of which must be there once."""
    import pyarrow as pa

    for name in ("ts_recv", *prices, *sizes):
        if header.count(name) != 1:
            raise must(content.name, f"have one column {name}", header.count(name), "Export it again.", BadData)
    types = {name: decimals(9) for name in prices} | {"ts_recv": pa.timestamp("ns", "UTC"), "symbol": pa.string()}
    names = ("ts_recv", *extra, *prices, *sizes)
    table = read_table(content, names, {name: types[name] for name in names if name in types}, header=True)
    if not table.rows:
        raise must(content.name, "hold rows", "a header and no rows", "Export it again.", BadData)
    return table


def _levels(file: str, header: list[str]) -> int:
    depths = [int(match[1]) for name in header if (match := _LEVEL.fullmatch(name))]
    if not depths:
        holds = "orders, no books" if "order_id" in header else "no books"
        raise must(file, "hold books", f"a file that holds {holds}", "Ask Databento for schema mbp-10.", BadData)
    return max(depths) + 1


def _chosen(table: Table, extra: Sequence[str], select: str | None) -> Ints64:
    """Indices of the one instrument's rows."""
    everything = np.arange(table.rows)
    columns = [table.words(name) for name in ("instrument_id", "symbol") if name in extra]
    if select is None:
        for column in columns:
            found = sorted(set(column))
            if len(found) > 1:
                raise must(table.file, "hold one instrument", " and ".join(found), "Select one of them.", BadData)
        return everything
    mine = np.flatnonzero(np.any([[word == select for word in column] for column in columns] or [[False]], axis=0))
    if not len(mine):
        found = sorted({word for column in columns for word in column})
        raise must(
            "select", f"be an instrument of {table.file}", repr(select), f"It holds {', '.join(found)}.", BadData
        )
    return mine


def _guess(table: Table, extra: Sequence[str], mine: Ints64) -> Instrument | None:
    if "publisher_id" not in extra:
        return None
    dataset = _DATASETS.get(int(table.integer("publisher_id")[mine[0]]), "")
    return guess(dataset, table.words("symbol")[int(mine[0])] if "symbol" in extra else "")


def _column(side: str, what: str, level: int) -> str:
    return f"column {side}_{'px' if what == 'price' else 'sz'}_{level:02d}"
