"""Every input under bad/ gets the reaction that its README states."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from foxflow.errors import BadData
from foxflow.market.data import describe, load

DATA = Path(__file__).parents[3] / "shared" / "data"
BAD = DATA / "bad"
pytestmark = pytest.mark.skipif(not BAD.is_dir(), reason="the data folder is not here")
BOOK, MESSAGE = "XYZ_2026-01-05_34200000_57600000_orderbook_2.csv", "XYZ_2026-01-05_34200000_57600000_message_2.csv"

REFUSED = {
    "01_wrong_column_count": (BOOK, "row 3", "8 values", "7"),
    "02_time_goes_back": (MESSAGE, "row 4", "back in time"),
    "03_negative_size": (BOOK, "row 4", "column 4", "bid size", "-30"),
    "05_nan_price": (BOOK, "row 2", "column 3", "'nan'"),
    "06_empty_file": (BOOK, "empty"),
    "07_header_row": (BOOK, "row 1", "header"),
    "10_lengths_differ": (BOOK, MESSAGE, "6", "5"),
    "13_sentinel_with_size": (BOOK, "row 1", "level 2", "60"),
    "14_levels_out_of_order": (BOOK, "row 5", "level 2"),
    "15_prices_in_dollars": (BOOK, "row 2", "'100.03'"),
    "16_cut_last_line": (BOOK, "row 6", "cut short"),
    "18_unknown_event_type": (MESSAGE, "row 5", "event type", "9"),
    "21_dbn_truncated_zst": ("compressed stream ends early",),
    "22_dbn_second_frame_missing": ("no records",),
    "23_dbn_record_cut": ("5 whole records", "268 bytes left over"),
    "25_dbn_two_instruments": ("id 7", "id 8"),
    "26_dbn_time_goes_back": ("record 5", "back in time"),
    "28_dbn_mixed_record_types": ("record 3", "type 1"),
    "29_dbn_flipped_byte": ("checksum",),
    "30_csv_header_only": ("no rows",),
    "32_csv_column_missing": ("ask_sz_04",),
}
"""What the message must say beside the file's name."""

READ = {
    "00_good_reference": (6, {}),
    "04_crossed_book": (5, {"crossed": 1}),
    "08_crlf_good": (6, {}),
    "09_halt_good": (6, {}),
    "11_gzip_named_csv": (6, {}),
    "12_sentinel_levels_good": (5, {"one_sided": 1}),
    "17_blank_line_inside": (6, {}),
    "19_time_twelve_decimals_good": (6, {}),
    "20_dbn_good_two_frames": (6, {}),
    "24_dbn_plain_not_zstd": (6, {}),
    "27_dbn_undefined_levels_good": (5, {"one_sided": 1}),
    "31_csv_missing_levels_good": (3, {}),
}
"""Rows of the tape, and rows dropped by reason; together all the rows of the file."""


def file_of(folder: str) -> Path:
    files = sorted((BAD / folder).iterdir())
    return next((f for f in files if f.name == BOOK), files[0])


def test_the_tables_cover_every_folder():
    assert sorted([*REFUSED, *READ]) == sorted(f.name for f in BAD.iterdir() if f.is_dir())


@pytest.mark.parametrize("folder", sorted([*REFUSED, *READ]))
def test_each_bad_input_gets_the_reaction_that_its_readme_states(folder):
    path = file_of(folder)
    if folder in READ:
        told = describe(path)
        assert (told["rows"], told["dropped"]) == READ[folder]
        return
    with pytest.raises(BadData) as error:
        load(path)
    for words in (path.name if len(REFUSED[folder]) == 1 else REFUSED[folder][0], *REFUSED[folder]):
        assert re.search(rf"(?<!\d){re.escape(words)}(?!\d)", str(error.value)), str(error.value)


@pytest.mark.parametrize("folder", ["08_crlf_good", "11_gzip_named_csv", "17_blank_line_inside"])
def test_odd_looking_files_give_the_arrays_of_the_reference(folder):
    tape, reference = load(file_of(folder)), load(file_of("00_good_reference"))
    assert tape.book.tobytes() == reference.book.tobytes()
    assert tape.ts.tobytes() == reference.ts.tobytes()


@pytest.mark.parametrize("folder", ["05_nan_price", "16_cut_last_line", "02_time_goes_back"])
def test_either_file_of_a_pair_names_the_same_fault(folder):
    told = set()
    for path in (BAD / folder).iterdir():
        with pytest.raises(BadData) as error:
            load(path)
        told.add(str(error.value))
    assert len(told) == 1


def test_a_header_in_the_message_file_is_named_too():
    with pytest.raises(BadData, match=rf"{MESSAGE}: row 1 .*header"):
        load(BAD / "07_header_row" / MESSAGE)


def test_a_crossed_row_is_named_and_strict_data_refuses_it():
    assert describe(file_of("04_crossed_book"))["first_dropped"] == {"crossed": 3}
    with pytest.raises(BadData, match=f"{BOOK}: row 3 must not be crossed"):
        load(file_of("04_crossed_book"), strict=True)


def test_a_halt_is_marked_and_its_code_is_no_price():
    tape = load(file_of("09_halt_good"))
    assert tape.halts == ((2, 4),)
    prices = np.concatenate([tape.book[:, :2], tape.book[:, 4:6]])
    assert prices.min() > 9_000


def test_missing_levels_are_masked():
    tape = load(file_of("12_sentinel_levels_good"))
    assert tape.book[0].tolist() == [10_000, 0, 50, 0, 10_004, 0, 40, 0]
    assert tape.book.max() < 20_000
    dbn = load(file_of("27_dbn_undefined_levels_good"))
    assert not dbn.book.reshape(-1, 4, 10)[:, :, 3:].any()
    csv = load(file_of("31_csv_missing_levels_good")).book.reshape(-1, 4, 10)
    assert not csv[1, :, 3:].any()
    assert csv[[0, 2]].all()


def test_twelve_decimals_round_to_the_nearest_ns():
    path = file_of("19_time_twelve_decimals_good")
    text = (path.parent / MESSAGE).read_text().splitlines()[2].split(",")[0]
    whole, digits = text.split(".")
    assert len(digits) == 12
    expected = int(whole) * 10**9 + round(int(digits) / 1000)
    midnight = 1_767_589_200 * 10**9
    assert load(path).ts[2] == midnight + expected


def test_one_of_two_instruments_can_be_selected():
    assert len(load(file_of("25_dbn_two_instruments"), select="8").ts) == 3
    with pytest.raises(BadData, match=r"must be an instrument of .*, got '9'. It holds 7, 8"):
        load(file_of("25_dbn_two_instruments"), select="9")
