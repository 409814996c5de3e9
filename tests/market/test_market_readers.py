"""Real files load, and every guard of the readers trips."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import databento_dbn
import numpy as np
import pyarrow as pa
import pytest

from foxflow.errors import BadData, Mistake
from foxflow.market.book import check_trainable
from foxflow.market.data import describe, load
from foxflow.market.instrument import Terms, make

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data folder is not here")
BOOKS = {
    "dbn/aapl_20241021_mbp-10_from_csv.dbn.zst": (5000, {}, "US-EQUITY", "0.01"),
    "dbn/esh1_20201228_mbp-10.v1.dbn.zst": (2, {}, "ES", "0.25"),
    "dbn/esh1_20201228_mbp-10.v2.dbn.zst": (2, {}, "ES", "0.25"),
    "dbn/esh1_20201228_mbp-10.v3.dbn.zst": (2, {}, "ES", "0.25"),
    "dbn/esh4_20231225_mbp-10_from_mbo.dbn.zst": (19857, {"crossed": 143}, "ES", "0.25"),
    "dbn/esu4_20240701_mbp-1.dbn.zst": (2288, {}, "ES", "0.25"),
    "dbn/glbx_esh1_20201228_mbp-10.dbn.zst": (4, {}, "ES", "0.25"),
    "dbn/ifeu_brn_20240118_mbp-10.dbn.zst": (0, {"one_sided": 4}, "unknown", "0.000000001"),
    "dbn/live_mixed_records.dbn.zst": (2, {"other_record": 44}, "unknown", "0.25"),
    "dbn/ndex_tfm_20240118_mbp-10.dbn.zst": (4, {}, "unknown", "0.005"),
    "dbn/xnas_nvda_20201228_mbp-10.dbn.zst": (2, {"one_sided": 2}, "US-EQUITY", "0.01"),
    "lobster/GOOG_2012-06-21_34200000_57600000_message_10.csv": (20000, {}, "US-EQUITY", "0.01"),
    "lobster/GOOG_2012-06-21_34200000_57600000_orderbook_10.csv": (20000, {}, "US-EQUITY", "0.01"),
    "lobster/AMZN_2012-06-21_34200000_57600000_message_5.csv": (5000, {}, "US-EQUITY", "0.01"),
    "lobster/AMZN_2012-06-21_34200000_57600000_orderbook_5.csv": (5000, {}, "US-EQUITY", "0.01"),
    "lobster/AAPL_2012-06-21_34200000_57600000_message_10.csv": (999, {}, "US-EQUITY", "0.01"),
    "lobster/AAPL_2012-06-21_34200000_57600000_orderbook_10.csv": (999, {}, "US-EQUITY", "0.01"),
    "databento_csv/aapl_20241021_mbp-10.csv": (1000, {}, "US-EQUITY", "0.01"),
    "databento_csv/arl_20250717_mbp-10.csv": (1498, {"one_sided": 2}, "US-EQUITY", "0.01"),
}
ES_FILE, GOOG = (
    "dbn/esh4_20231225_mbp-10_from_mbo.dbn.zst",
    "lobster/GOOG_2012-06-21_34200000_57600000_orderbook_10.csv",
)


@needs_data
@pytest.mark.parametrize("name", BOOKS)
def test_every_file_that_holds_books_loads(name):
    told = describe(DATA / name)
    assert (told["rows"], told["dropped"], told["instrument"], told["tick"]) == BOOKS[name]
    assert told["format"] == name.split("/")[0]


@needs_data
def test_the_list_of_books_is_the_folders_but_for_order_files():
    folders = [p for d in ("dbn", "lobster", "databento_csv") for p in (DATA / d).iterdir()]
    assert {
        f"{p.parent.name}/{p.name}" for p in folders if not p.name.endswith("_mbo.dbn.zst") or "mbp" in p.name
    } == set(BOOKS)


@needs_data
@pytest.mark.parametrize("name", ["esh4_20231225_mbo.dbn.zst", "esm4_20240508_mbo.dbn.zst"])
def test_an_mbo_file_is_refused_as_orders(name):
    with pytest.raises(BadData, match="holds orders, no books"):
        load(DATA / "dbn" / name)


@needs_data
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("binance_spot_ethusdt_20240808.gz", "capture of exchange messages"),
        ("hyperliquid_btc_20250126.gz", "capture of exchange messages"),
        ("bybit_xrpusdt_20241201_ob500.data.zip", "zip archive"),
        ("tardis_binance-futures_btcusdt_book_snapshot_5.csv", "Tardis"),
        ("tardis_binance-futures_btcusdt_book_snapshot_25.csv", "Tardis"),
    ],
)
def test_a_crypto_file_is_refused_by_the_name_of_its_format(name, words):
    with pytest.raises(BadData, match=words):
        load(DATA / "crypto" / name)


@needs_data
def test_the_three_dbn_versions_give_equal_arrays_and_note_what_is_stored():
    tapes = [load(DATA / f"dbn/esh1_20201228_mbp-10.v{v}.dbn.zst") for v in (1, 2, 3)]
    assert len({tape.book.tobytes() + tape.ts.tobytes() for tape in tapes}) == 1
    assert [tape.note for tape in tapes] == [f"DBN version {v}, mbp-10" for v in (1, 2, 3)]


@needs_data
@pytest.mark.parametrize("name", [ES_FILE, "dbn/aapl_20241021_mbp-10_from_csv.dbn.zst"])
def test_dbn_arrays_equal_the_vendors_decoder(name):
    """The decoder of databento_dbn walks the records one by one."""
    tape = load(DATA / name)
    with pa.input_stream(str(DATA / name), compression="zstd") as stream:
        raw = stream.read()
    decoder = databento_dbn.DBNDecoder()
    decoder.write(raw)
    tick = tape.instrument.tick_nanos
    rows = []
    for record in decoder.decode():
        if isinstance(record, databento_dbn.MBP10Msg) and record.levels[0].bid_px < record.levels[0].ask_px:
            sides = [[(lv.bid_px, lv.bid_sz) for lv in record.levels], [(lv.ask_px, lv.ask_sz) for lv in record.levels]]
            row = []
            for side in sides:
                there = [(px // tick, sz) if px != databento_dbn.UNDEF_PRICE else (0, 0) for px, sz in side]
                row += [px for px, _ in there] + [sz for _, sz in there]
            rows.append([record.ts_recv, *row])
    expected = np.array(rows, np.int64)
    assert np.array_equal(tape.ts, expected[:, 0])
    assert np.array_equal(tape.book, expected[:, 1:])


@needs_data
def test_databento_csv_and_dbn_of_the_same_records_are_equal():
    csv, dbn = (
        load(DATA / "databento_csv/aapl_20241021_mbp-10.csv"),
        load(DATA / "dbn/aapl_20241021_mbp-10_from_csv.dbn.zst"),
    )
    assert csv.book.tobytes() == dbn.book[:1000].tobytes()
    assert csv.ts.tobytes() == dbn.ts[:1000].tobytes()


@needs_data
def test_lobster_arrays_equal_a_line_by_line_reading():
    tape = load(DATA / GOOG)
    lines = (DATA / GOOG).read_text().splitlines()
    for row in (0, 1, 8_191, 8_192, 19_999):
        cells = np.array(lines[row].split(","), np.int64).reshape(10, 4)
        expected = np.concatenate([cells[:, 2] // 100, cells[:, 3], cells[:, 0] // 100, cells[:, 1]])
        assert np.array_equal(tape.book[row], expected)
    times = [line.split(",")[0] for line in (DATA / GOOG.replace("orderbook", "message")).read_text().splitlines()]
    midnight = 1_340_251_200 * 10**9
    assert tape.ts.tolist() == [midnight + int(Decimal(time) * 10**9) for time in times]


@needs_data
def test_both_files_of_a_pair_give_one_tape_and_are_named_with_their_sha256():
    a, b = load(DATA / GOOG), load(DATA / GOOG.replace("orderbook", "message"))
    assert a.book.tobytes() + a.ts.tobytes() == b.book.tobytes() + b.ts.tobytes()
    assert a.source == b.source
    assert dict(a.source)[Path(GOOG).name] == hashlib.sha256((DATA / GOOG).read_bytes()).hexdigest()


@needs_data
def test_levels_are_cut_or_added_empty():
    whole, cut, padded = (load(DATA / GOOG, levels=n) for n in (None, 3, 12))
    assert np.array_equal(cut.book.reshape(-1, 4, 3), whole.book.reshape(-1, 4, 10)[:, :, :3])
    assert np.array_equal(padded.book.reshape(-1, 4, 12)[:, :, :10], whole.book.reshape(-1, 4, 10))
    assert not padded.book.reshape(-1, 4, 12)[:, :, 10:].any()
    with pytest.raises(Mistake, match="levels must be 1 or more, got 0"):
        load(DATA / GOOG, levels=0)


@needs_data
def test_a_price_off_the_tick_is_refused_with_its_place():
    with pytest.raises(BadData, match=r"esh4.*: record 1, level 1, column bid_px_00: bid price must be a whole number"):
        load(DATA / ES_FILE, instrument=make(Terms(name="odd", tick="0.26", tick_value="1")))
    with pytest.raises(BadData, match=r"orderbook_10.csv: row 1, .*whole number of ticks"):
        load(DATA / GOOG, instrument=make(Terms(name="nickel", tick="0.05", tick_value="5")))


@needs_data
def test_a_tick_finer_than_the_files_unit_reads_exactly():
    fine = load(DATA / GOOG, instrument=make(Terms(name="fine", tick="0.00002", tick_value="0.01")), levels=1)
    assert np.array_equal(fine.book[:, 0], load(DATA / GOOG, levels=1).book[:, 0] * 500)


@needs_data
def test_ticks_beyond_32_bits_are_refused_with_their_row():
    tiny = make(Terms(name="tiny", tick="0.0000001", tick_value="0.01"))
    with pytest.raises(BadData, match=r"row 1, level 1, column 3: bid price must fit into 32 bits as ticks"):
        load(DATA / GOOG, instrument=tiny)


@needs_data
def test_an_instrument_that_nobody_named_can_be_shown_but_not_trained_on():
    tape = load(DATA / "dbn/ndex_tfm_20240118_mbp-10.dbn.zst")
    with pytest.raises(Mistake, match="at least 50 rows for training"):
        check_trainable(tape, 16)
    big = load(DATA / ES_FILE)
    check_trainable(big, 16)
    with pytest.raises(Mistake, match="known instrument"):
        check_trainable(replace(big, instrument=tape.instrument), 16)
