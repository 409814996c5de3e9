"""Tables of text, column by column, without a float anywhere; the errors name file, row and column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foxflow.errors import BadData, Mistake, must
from foxflow.market import integers
from foxflow.market.book import Ints64
from foxflow.market.content import Content, pieces
from foxflow.market.reading import NO_PRICE

if TYPE_CHECKING:
    import pyarrow as pa

_VALUE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", re.S)
_WIDTH = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_BLOCK_BYTES = 1 << 22


def decimals(digits: int) -> pa.DataType:
    """The type of a column of decimals with at most `digits` digits behind the point."""
    import pyarrow as pa

    return pa.decimal128(38, digits)


@dataclass(frozen=True, slots=True)
class Table:
    """A file's columns."""

    file: str
    arrow: pa.Table

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.arrow.num_rows)

    def integer(self, name: str) -> Ints64:
        """A column of whole numbers or of UTC times (then in ns), int64[n]; an empty cell is an error."""
        column = self.arrow[name].combine_chunks()
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) + 1
            raise must(
                f"{self.file}: row {row}, column {name}", "hold a value", "nothing", "Mend or cut the file.", BadData
            )
        return np.asarray(column.cast("int64").to_numpy(), dtype=np.int64)

    def decimal(self, name: str) -> Ints64:
        """A column of decimals in units of its last digit, int64[n]; an empty cell becomes NO_PRICE.

        Raises:
            BadData: a value is beyond 64 bits.
        """
        column = self.arrow[name].combine_chunks()
        words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)].reshape(-1, 2)
        low = words[:, 0].copy()
        absent = column.is_null().to_numpy(zero_copy_only=False)
        low[absent] = NO_PRICE
        beyond = (words[:, 1] != low >> 63) & ~absent
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            raise must(
                f"{self.file}: row {row + 1}, column {name}",
                "fit into 64 bits",
                column[row].as_py(),
                "Mend or cut the file.",
                BadData,
            )
        return low

    def words(self, name: str) -> list[str]:
        """A column as text."""
        return [str(value) for value in self.arrow[name].to_pylist()]


def read_table(
    content: Content, names: Sequence[str], types: Mapping[str, pa.DataType], *, header: bool = False
) -> Table:
    """Read columns of a comma separated file.

    Args:
        content: the file.
        names: all columns of a file without a header; of one with a header, those wanted.
        types: the type of a column, whole numbers where it isn't given.
        header: the first line names the columns; then empty cells are legal, else they are errors.

    Raises:
        BadData: a row has another number of values, or a value isn't of its column's type.
    """
    return Table(content.name, _parsed(content, _whole(content), _Form(names, types, header)))


def integer_batches(content: Content, labels: Sequence[str], rows: int) -> Iterator[list[Ints64]]:
    """Yield all columns of a file of whole numbers without a header, at most `rows` rows at a time.

    Args:
        content: the file.
        labels: a word for each column, for errors.
        rows: of a batch.

    Raises:
        BadData: a row has another number of values, or a value isn't a whole number.
    """
    form = _Form([f"{i} ({label})" for i, label in enumerate(labels, 1)], {}, False)
    data = _whole(content)
    done = 0
    while (batch := integers.parse(data, done, len(labels), rows)) is not None:
        yield list(batch.columns)
        done += batch.used_bytes
    if done < data.size:
        yield from _arrow_batches(content, data, done, form, rows)


def _arrow_batches(content: Content, data: pa.Buffer, done: int, form: _Form, rows: int) -> Iterator[list[Ints64]]:
    """The rest of a file, by the parser that knows every form of a number and says where a file is wrong."""
    import pyarrow as pa

    while done < data.size:
        lines = _lines(data, done)
        try:
            table = form.table(lines)
        except pa.ArrowInvalid:
            _parsed(content, data, form)  # its error counts the rows from the file's first one
            raise
        for batch in table.to_batches(max_chunksize=rows):
            yield [column.to_numpy() for column in batch.columns]
        done += lines.size


def _lines(data: pa.Buffer, start: int) -> pa.Buffer:
    """Whole lines from there on, about 4 MiB of them."""
    end = start + _BLOCK_BYTES
    if end < data.size:
        end = start + bytes(data[start:end]).rfind(b"\n") + 1
    return data[start:end] if end > start else data[start:]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a file is to be parsed."""

    names: Sequence[str]
    types: Mapping[str, pa.DataType]
    header: bool

    def table(self, data: pa.Buffer) -> pa.Table:
        """Parse; in this thread, since tasks of the parallel parser outlive an error and may then wait for ever."""
        import pyarrow as pa
        from pyarrow import csv

        names = list(self.names)
        return csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(
                column_names=None if self.header else names, use_threads=False, block_size=_BLOCK_BYTES
            ),
            parse_options=csv.ParseOptions(quote_char='"' if self.header else False),
            convert_options=csv.ConvertOptions(
                column_types={name: self.types.get(name, pa.int64()) for name in names},
                include_columns=names if self.header else [],
                null_values=[""] if self.header else [],
                strings_can_be_null=False,
            ),
        )


def _whole(content: Content) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(b"".join(pieces(content, _BLOCK_BYTES))) if content.packed else content.data


def _parsed(content: Content, data: pa.Buffer, form: _Form) -> pa.Table:
    import pyarrow as pa

    try:
        return form.table(data)
    except pa.ArrowInvalid as error:
        raise _explained(content, data, str(error), form) from None


def _explained(content: Content, data: pa.Buffer, text: str, form: _Form) -> Mistake:
    """The error, from the parser's words."""
    skipped = 1 if form.header else 0
    if (match := _WIDTH.match(text)) and match[1]:
        row, wanted, got = int(match[1]) - skipped, match[2], match[3]
        last = bytes(data[-(1 << 16) :]).split(b"\n")[-1]
        cut = bool(last) and last.count(b",") + 1 == int(got)
        return must(
            f"{content.name}: row {row}",
            f"have {wanted} values",
            f"{got} (the file is cut short: it ends inside this row)" if cut else got,
            "Download it again." if cut else "Mend or cut the file.",
            BadData,
        )
    if (match := _VALUE.match(text)) and match[2]:
        at = int(match[1])
        column = content.first_line.decode(errors="replace").split(",")[at] if form.header else form.names[at]
        value = re.search(r"value '(.*)'|string '(.*)' is", match[3], re.S)
        got = repr(value[1] or value[2] or "") if value else match[3]
        return must(
            f"{content.name}: row {int(match[2]) - skipped}, column {column}",
            "hold a value of its column's kind",
            got,
            "Mend or cut the file.",
            BadData,
        )
    return must(content.name, "be a readable table", text, "Mend or cut the file.", BadData)
