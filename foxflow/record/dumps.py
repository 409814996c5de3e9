"""A dump's Parquet file, written by hand: pyarrow copies buffers into pages, which takes longer than writing them.

One page a column and row group, uncompressed, with its CRC. Text and numbers are PLAIN; `data` is
DELTA_LENGTH_BYTE_ARRAY, all lengths and then all bytes, so that the bytes of a row group are the end of its column
chunk and a reader may map the file. Format: https://parquet.apache.org/docs/file-format, its metadata in Thrift's
compact protocol.
"""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from foxflow.record import layout

MAGIC = b"PAR1"
INT32, INT64, BYTE_ARRAY = 1, 2, 6
PLAIN, RLE, DELTA_LENGTH = 0, 3, 6
OPTIONAL, UTF8, VERSION = 1, 0, 2
BLOCK = 128
"""Deltas of a block, in four parts of 32."""
FLUSH_BYTES = 1 << 22
TYPES = {pa.int32(): INT32, pa.int64(): INT64, pa.string(): BYTE_ARRAY, pa.large_binary(): BYTE_ARRAY}

Value = tuple[int, bytes]
"""A Thrift value: the code of its type, and what it is written as."""


class DumpFile:
    """Writes a dump row group by row group; without `close` it is no Parquet file.

    Args:
        file: opened to be written, at its begin.
        flush: called now and then to hand to the disk what was written.
    """

    def __init__(self, file: BinaryIO, flush: Callable[[], None]) -> None:
        self._file, self._flush, self._flushed = file, flush, 0
        self._at = self._rows = 0
        self._groups: list[Value] = []
        self._write([MAGIC])

    def write(self, rows: Any, data: Sequence[bytes]) -> None:
        """Append a row group.

        Args:
            rows: a batch of `layout.COLUMNS`, not empty.
            data: the bytes of each row.
        """
        began, chunks = self._at, []
        for field, column in zip(layout.COLUMNS, rows.columns, strict=True):
            chunks.append(self._chunk(field, PLAIN, len(rows), [_levels(column), _plain(column)]))
        lengths = _lengths(np.array([len(value) for value in data], np.int64))
        every = _levels(pa.array([True] * len(data)))
        chunks.append(self._chunk(layout.DUMP_COLUMNS[-1], DELTA_LENGTH, len(rows), [every, lengths, *data]))
        size = self._at - began
        self._groups.append(_struct({1: _list(chunks), 2: _i64(size), 3: _i64(len(rows))}))
        self._rows += len(rows)

    def _chunk(self, field: Any, encoding: int, count: int, pieces: Sequence[bytes]) -> Value:
        """Write a column's only page of a row group; returns its ColumnChunk."""
        size, crc, began = sum(map(len, pieces)), 0, self._at
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        page = _struct({1: _i32(count), 2: _i32(encoding), 3: _i32(RLE), 4: _i32(RLE)})
        signed = crc - (crc >> 31 << 32)
        header = _struct({1: _i32(0), 2: _i32(size), 3: _i32(size), 4: _i32(signed), 5: page})
        self._write([header[1], *pieces])
        whole = self._at - began
        facts = {
            1: _i32(TYPES[field.type]),
            2: _list([_i32(RLE), _i32(encoding)]),
            3: _list([_text(field.name)]),
            4: _i32(0),
            5: _i64(count),
            6: _i64(whole),
            7: _i64(whole),
            9: _i64(began),
        }
        return _struct({2: _i64(0), 3: _struct(facts)})

    def _write(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self._file.write(piece)
            self._at += len(piece)
            if self._at - self._flushed > FLUSH_BYTES:
                self._flush()
                self._flushed = self._at

    def close(self) -> None:
        """Write what the file says of itself; the file stays open."""
        arrow = base64.b64encode(layout.DUMP_COLUMNS.serialize()).decode()
        said = {"ARROW:schema": arrow, **layout.END_TO_END}
        root = _struct({4: _text("schema"), 5: _i32(len(layout.DUMP_COLUMNS))})
        footer = _struct(
            {
                1: _i32(VERSION),
                2: _list([root, *map(_element, layout.DUMP_COLUMNS)]),
                3: _i64(self._rows),
                4: _list(self._groups),
                5: _list([_struct({1: _text(key), 2: _text(value)}) for key, value in said.items()]),
                6: _text("foxflow"),
            }
        )
        self._write([footer[1], len(footer[1]).to_bytes(4, "little"), MAGIC])


def _element(field: Any) -> Value:
    """A column's SchemaElement."""
    facts = {1: _i32(TYPES[field.type]), 3: _i32(OPTIONAL), 4: _text(field.name)}
    if field.type == pa.string():
        facts |= {6: _i32(UTF8), 10: _struct({1: _struct({})})}
    return _struct(facts)


def _levels(column: Any) -> bytes:
    """Definition levels: runs of one bit, 1 where there is a value."""
    runs = ((valid, len(list(same))) for valid, same in itertools.groupby(column.is_valid().to_pylist()))
    text = b"".join(_varint(count << 1) + bytes([valid]) for valid, count in runs)
    return len(text).to_bytes(4, "little") + text


def _plain(column: Any) -> bytes:
    """The values that are there, in PLAIN: numbers as they are, text after its length."""
    if column.type != pa.string():
        return bytes(column.drop_null().to_numpy().tobytes())
    texts = [text.encode() for text in column.drop_null().to_pylist()]
    return b"".join([len(text).to_bytes(4, "little") + text for text in texts])


def _lengths(sizes: Any) -> bytes:
    """Lengths in DELTA_BINARY_PACKED, every delta at 32 bits."""
    out = [_varint(BLOCK), _varint(4), _varint(len(sizes)), _varint(int(sizes[0]) << 1)]
    deltas = np.diff(sizes)
    for at in range(0, len(deltas), BLOCK):
        block = deltas[at : at + BLOCK]
        least = int(block.min())
        packed = np.zeros(BLOCK, "<u4")
        packed[: len(block)] = block - least
        parts = -(-len(block) // 32)
        out += [_varint(_zigzag(least)), bytes([32] * 4), packed[: 32 * parts].tobytes()]
    return b"".join(out)


def _zigzag(n: int) -> int:
    return n << 1 if n >= 0 else (-n << 1) - 1


def _varint(n: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _i32(n: int) -> Value:
    return 5, _varint(_zigzag(n))


def _i64(n: int) -> Value:
    return 6, _varint(_zigzag(n))


def _text(text: str) -> Value:
    raw = text.encode()
    return 8, _varint(len(raw)) + raw


def _list(values: Sequence[Value]) -> Value:
    """A list of values of one type, not empty."""
    count, kind = len(values), values[0][0]
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)
    return 9, head + b"".join(body for _, body in values)


def _struct(fields: dict[int, Value]) -> Value:
    """A struct, its fields by ascending number."""
    out, last = [], 0
    for number, (kind, body) in fields.items():
        out += [bytes([number - last << 4 | kind]), body]
        last = number
    return 12, b"".join(out) + b"\0"
