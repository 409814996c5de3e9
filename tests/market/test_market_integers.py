"""The compiled reader of whole numbers: the same numbers as the general parser, and nothing it does not know."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foxflow.market import integers

OTHER_FORMS = (
    *(b"7\n", b"7,8,9\n", b"7,\n", b",8\n", b"7,x\n", b"7,8.0\n", b"+7,8\n", b"-,8\n", b" 7,8\n", b"7,8 \n", b"\n"),
    *(b'"7",8\n', b"7,8\r", b"7,8", b"1234567890123456789,8\n", b"7;8\n", b"7,8\r\r\n", b"\xef\xbb\xbf7,8\n"),
)
NUMBER = st.integers(-(10**18) + 1, 10**18 - 1)


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=40), st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_is_read(rows: list[tuple[int, int, int]], end: str) -> None:
    text = "".join(",".join(map(str, row)) + end for row in rows).encode()
    batch = integers.parse(pa.py_buffer(text), 0, 3, 64)
    assert batch is not None
    assert batch.columns.T.tolist() == [list(row) for row in rows]
    assert batch.used_bytes == len(text)


def test_a_batch_ends_at_its_number_of_rows_and_the_next_one_goes_on() -> None:
    data = pa.py_buffer(b"1,2\n3,4\n5,6\n")
    first = integers.parse(data, 0, 2, 2)
    assert first is not None
    assert first.columns.tolist() == [[1, 3], [2, 4]]
    second = integers.parse(data, first.used_bytes, 2, 2)
    assert second is not None
    assert second.columns.tolist() == [[5], [6]]
    assert integers.parse(data, first.used_bytes + second.used_bytes, 2, 2) is None


@pytest.mark.parametrize("line", OTHER_FORMS)
def test_a_line_of_another_form_is_left_to_the_general_parser(line: bytes) -> None:
    batch = integers.parse(pa.py_buffer(b"1,2\n" + line), 0, 2, 8)
    assert batch is not None
    assert batch.columns.tolist() == [[1], [2]]
    assert batch.used_bytes == 4
    assert integers.parse(pa.py_buffer(line), 0, 2, 8) is None
