"""Every guard of the readers trips, and names the file, the row and the column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foxflow.errors import BadData
from foxflow.market.data import load
from foxflow.market.instrument import ES

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data folder is not here")
ES_FILE = "dbn/esh4_20231225_mbp-10_from_mbo.dbn.zst"


@needs_data
def test_a_live_capture_takes_orders_alone_for_no_books(tmp_path):
    with pa.input_stream(str(DATA / "dbn/live_mixed_records.dbn.zst"), compression="zstd") as stream:
        raw = stream.read()
    at = 8 + int.from_bytes(raw[4:8], "little")
    kept = raw[:at]
    while at < len(raw):
        size = 4 * raw[at]
        kept += raw[at : at + size] if raw[at + 1] == 160 else b""
        at += size
    (tmp_path / "orders.dbn").write_bytes(kept)
    with pytest.raises(BadData, match="holds orders, no books"):
        load(tmp_path / "orders.dbn")


@needs_data
@pytest.mark.parametrize("size", [3, 9, 100])
def test_dbn_metadata_cut_short_is_refused(tmp_path, size):
    with pa.input_stream(str(DATA / ES_FILE), compression="zstd") as stream:
        (tmp_path / "cut.dbn").write_bytes(stream.read(size))
    with pytest.raises(BadData, match="must begin with DBN metadata"):
        load(tmp_path / "cut.dbn")


@needs_data
@pytest.mark.parametrize(
    ("at", "byte", "words"), [(0, 0, "16 bytes long"), (0, 20, "of one length"), (1, 160, "type 160")]
)
def test_a_damaged_dbn_record_is_named(tmp_path, at, byte, words):
    with pa.input_stream(str(DATA / ES_FILE), compression="zstd") as stream:
        raw = bytearray(stream.read())
    start = 8 + int.from_bytes(raw[4:8], "little")
    raw[start + 2 * 368 + at] = byte
    (tmp_path / "damaged.dbn").write_bytes(raw)
    with pytest.raises(BadData, match=f"record 3 must .*{words}"):
        load(tmp_path / "damaged.dbn")


def test_a_gzip_cut_short_and_a_missing_file_are_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(gzip.compress(b"1,2,3\n" * 100)[:-9])
    with pytest.raises(BadData, match=r"a\.csv must be a whole gzip stream"):
        load(tmp_path / "a.csv")
    with pytest.raises(BadData, match=r"b\.csv must be a market file, got no such file"):
        load(tmp_path / "b.csv")
    with pytest.raises(BadData, match="got a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"PAR1....", "Parquet"), (b'{"a": 1}\n', "JSON lines"), (b"\x00\x01\x02", "bytes beginning with")],
)
def test_what_is_no_market_file_is_named(tmp_path, content, words):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(BadData, match=words):
        load(tmp_path / "x")


def test_numbers_without_lobsters_name_have_no_date(tmp_path):
    (tmp_path / "book.csv").write_text("1000100,1,1000000,1\n")
    with pytest.raises(BadData, match="must be called TICKER_DATE"):
        load(tmp_path / "book.csv")


def pair(folder: Path, messages: str, books: str) -> Path:
    """A LOBSTER pair of one level."""
    (folder / "X_2024-03-08_0_1_message_1.csv").write_text(messages)
    (folder / "X_2024-03-08_0_1_orderbook_1.csv").write_text(books)
    return folder / "X_2024-03-08_0_1_orderbook_1.csv"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("-1.5,1,1,1,1000000,1", "row 1 must have a time"),
        ("172800,1,1,1,1000000,1", "row 1 must have a time"),
        ("1.5,1,1,-1,1000000,1", "row 1 must have a size of 0 or more, got -1"),
        ("1.5,1,1,1,1000000,0", "row 1 must have a direction"),
        ("1.5,7,0,0,5,-1", "row 1 must have a halt code"),
        ("1.5000000000001,1,1,1,1000000,1", "row 1, column time"),
        ("99999999999.0,1,1,1,1000000,1", "row 1, column time must fit into 64 bits"),
        ("1.5,1,1,1,,1", "row 1, column price"),
    ],
)
def test_a_broken_lobster_message_is_named(tmp_path, message, words):
    with pytest.raises(BadData, match=words):
        load(pair(tmp_path, message + "\n", "1000100,1,1000000,1\n"))


@pytest.mark.parametrize(
    ("book", "words"),
    [
        ("1000100,0,1000000,1", "ask size must be more than 0 where the level has a price"),
        ("1000100,3000000000,1000000,1", "ask size must fit into 32 bits, got 3000000000"),
        ("1000100,1,99999999999999,1", "bid price must fit into 32 bits as ticks"),
        ("1000100,1,1000050,1", "bid price must be a whole number of ticks, got 1000050"),
    ],
)
def test_a_broken_lobster_book_is_named(tmp_path, book, words):
    with pytest.raises(BadData, match=f"orderbook_1.csv: row 2, level 1, column [1-4]: {words}"):
        load(pair(tmp_path, "1.5,1,1,1,1,1\n" * 2, f"1000100,1,1000000,1\n{book}\n"))


def test_a_level_behind_a_missing_one_is_refused(tmp_path):
    (tmp_path / "X_2024-03-08_0_1_message_2.csv").write_text("1,1,1,1,1,1\n")
    book = tmp_path / "X_2024-03-08_0_1_orderbook_2.csv"
    book.write_text("9999999999,0,1000000,1,1000100,1,999900,1\n")
    with pytest.raises(BadData, match="row 1, level 2, column 5: ask price must be missing where the level before is"):
        load(book)


def test_a_locked_row_is_dropped_and_counted_or_refused(tmp_path):
    path = pair(tmp_path, "1,1,1,1,1,1\n" * 2, "1000000,1,1000000,1\n1000100,1,1000000,1\n")
    tape = load(path)
    assert (tape.dropped, tape.first_dropped, len(tape.ts)) == ((("locked", 1),), (("locked", 1),), 1)
    with pytest.raises(BadData, match="row 1 must not be locked"):
        load(path, strict=True)


HEADER = "ts_recv,publisher_id,instrument_id,symbol,bid_px_00,bid_sz_00,ask_px_00,ask_sz_00\n"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("2024-01-02T03:04:05Z,1,5,ESH4,0.1,1,0.2x,1", "row 1, column ask_px_00"),
        ("2024-01-02T03:04:05Z,1,5,ESH4,1,,2,1", "row 1, column bid_sz_00 must hold a value"),
        (",1,5,ESH4,1,1,2,1", "row 1, column ts_recv must hold a value"),
        ("2024-01-02T03:04:05Z,1,5,ESH4,1.0000000001,1,2,1", "row 1, column bid_px_00"),
        ("2024-01-02T03:04:05Z,1,5,ESH4,9999999999999,1,2,1", "row 1, column bid_px_00 must fit into 64 bits"),
        ("2024-01-02T03:04:05Z,1,5,ESH4,1,1,2", "row 1 must have 8 values, got 7 .the file is cut short"),
        ("2024-01-02T03:04:05Z,1,5,ESH4,1,1,2,1\n2024-01-02T03:04:05Z,1,6,ESM4,1,1,2,1", "one instrument, got 5 and 6"),
        ("1969-01-02T03:04:05Z,1,5,ESH4,1,1,2,1", "row 1 must not go back in time"),
    ],
)
def test_a_broken_databento_csv_is_named(tmp_path, rows, words):
    (tmp_path / "x.csv").write_text(HEADER + rows)
    with pytest.raises(BadData, match=words):
        load(tmp_path / "x.csv")


def test_decimal_prices_are_exact_and_a_symbol_can_be_selected(tmp_path):
    row = "2024-01-02T03:04:05.000000001Z,1,{},{},4805.25,1,4805.500,2\n"
    (tmp_path / "x.csv").write_text(HEADER + row.format(5, "ESH4") + row.format(6, "ESM4") + row.format(5, "ESH4"))
    tape = load(tmp_path / "x.csv", select="ESH4")
    assert tape.instrument == ES
    assert tape.book.tolist() == [[19221, 1, 19222, 2]] * 2
    assert tape.ts[0] == 1_704_164_645 * 10**9 + 1
    with pytest.raises(BadData, match="must be an instrument of"):
        load(tmp_path / "x.csv", select="NQH4")


def test_a_packed_csv_reads_as_the_plain_one(tmp_path):
    plain = (HEADER + "2024-01-02T03:04:05Z,1,5,ESH4,1,1,2,1\n").encode()
    (tmp_path / "x.csv.zst").write_bytes(pa.Codec("zstd").compress(plain, asbytes=True))
    assert load(tmp_path / "x.csv.zst").book.tolist() == [[4, 1, 8, 1]]


def test_a_csv_of_orders_holds_no_books(tmp_path):
    (tmp_path / "x.csv").write_text("ts_recv,order_id,price,size\n2024-01-02T03:04:05Z,1,1.0,1\n")
    with pytest.raises(BadData, match="holds orders, no books"):
        load(tmp_path / "x.csv")


NONE = 9_999_999_999
SIDE = st.lists(st.tuples(st.sampled_from([100, 200, 250, 300, 400, NONE]), st.sampled_from([0, 1, 5, -1, 2**31])),
                min_size=3, max_size=3)  # fmt: skip


def lawful(side: list[tuple[int, int]]) -> bool:
    """The rules of one side of the book, level by level, prices growing away from the market."""
    here = [px != NONE for px, _ in side]
    sizes = all(0 < sz < 2**31 if there else sz == 0 for there, (_, sz) in zip(here, side, strict=True))
    prices = [px for px, _ in side if px != NONE]
    return sizes and here == sorted(here, reverse=True) and prices == sorted(set(prices)) and 250 not in prices


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=4))
def test_a_book_is_read_when_every_row_keeps_the_rules_and_else_its_first_bad_row_is_named(tmp_path, rows):
    """Bids are mirrored at 10000, so that both sides are drawn alike and never cross."""
    book = tmp_path / "X_2024-03-08_0_1_orderbook_3.csv"
    cells = [
        [n for (a, an), (b, bn) in zip(ask, bid, strict=True)
         for n in (a if a == NONE else 10_000 + a, an, -NONE if b == NONE else 10_000 - b, bn)]
        for bid, ask in rows
    ]  # fmt: skip
    book.write_text("".join(",".join(map(str, row)) + "\n" for row in cells))
    (tmp_path / "X_2024-03-08_0_1_message_3.csv").write_text("1,1,1,1,1,1\n" * len(rows))
    bad_rows = [n for n, (bid, ask) in enumerate(rows, 1) if not (lawful(bid) and lawful(ask))]
    if bad_rows:
        with pytest.raises(BadData, match=f"row {bad_rows[0]}, level"):
            load(book)
        return
    tape = load(book)
    both = [[row[k] // 100 if row[k + 1] else 0 for k in (2, 6, 10)] for row in cells if row[1] and row[3]]
    assert tape.book[:, :3].tolist() == both
    assert len(tape.ts) + sum(n for _, n in tape.dropped) == len(rows)
