"""What a file is, told from its bytes and never from its name."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow.errors import BadData, Mistake, must

if TYPE_CHECKING:
    import pyarrow as pa

_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_NUMBERS = re.compile(rb"(?:[-+0-9.eE, ]|nan)*")
_DO = "Formats read: Databento MBP-10 and MBP-1 (DBN or CSV), LOBSTER pairs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file's bytes, unpacked, with the name and the SHA-256 of the file as it lies on disk."""

    name: str
    data: pa.Buffer
    """What the file holds, once unpacked; a zstd stream as it is, see `packed`."""
    packed: bool
    """`data` is a zstd stream, to be unpacked piece by piece."""
    hashing: Future[str]

    @property
    def sha256(self) -> str:
        """SHA-256 of the file on disk, 64 hex digits; it is computed beside the reading."""
        return self.hashing.result()

    @property
    def first_line(self) -> bytes:
        """The first line without its end, at most 64 KiB."""
        return next(pieces(self, 1 << 16), b"").split(b"\n", 1)[0].rstrip(b"\r")


def open_content(path: Path) -> Content:
    """Open a file; gzip and zstd are told from its first bytes.

    Raises:
        BadData: there is no such file, it is empty, or its gzip stream is damaged or ends early.
    """
    import pyarrow as pa

    if not path.is_file():
        raise must(
            path.name,
            "be a market file",
            "a folder" if path.is_dir() else "no such file",
            "A LOBSTER pair needs both files side by side.",
            BadData,
        )
    if not path.stat().st_size:
        raise must(path.name, "hold rows", "an empty file (0 bytes)", "Download it again.", BadData)
    with pa.memory_map(str(path)) as file:
        raw = file.read_buffer()
    worker = ThreadPoolExecutor(1)
    hashing = worker.submit(lambda: hashlib.sha256(raw).hexdigest())
    worker.shutdown(wait=False)
    magic = bytes(raw[:4])
    data = pa.py_buffer(_gunzip(path.name, raw)) if magic.startswith(_GZIP) else raw
    return Content(name=path.name, data=data, packed=magic == _ZSTD, hashing=hashing)


def pieces(content: Content, size: int) -> Iterator[bytes]:
    """Yield what a file holds, `size` bytes at a time; every zstd frame is read, and its checksum checked.

    Raises:
        BadData: the zstd stream is damaged or ends early.
    """
    import pyarrow as pa

    source = pa.BufferReader(content.data)
    try:
        with pa.CompressedInputStream(source, "zstd") if content.packed else source as stream:
            while piece := stream.read(size):
                yield piece
    except OSError as error:
        raise _damaged(content.name, str(error)) from None


def ahead(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a stream's pieces, the next one being unpacked while the last is used."""
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, stream, b"")
        while piece := coming.result():
            coming = worker.submit(next, stream, b"")
            yield piece


def _gunzip(name: str, raw: pa.Buffer) -> bytes:
    try:
        return gzip.decompress(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise must(name, "be a whole gzip stream", str(error), "Download it again.", BadData) from None


def _damaged(name: str, text: str) -> Mistake:
    got = f"one that can't be unpacked ({text})"
    if "Truncated" in text:
        got = "one cut short: the compressed stream ends early"
    elif "checksum" in text:
        got = "one whose checksum doesn't match: its bytes were changed"
    return must(name, "be a whole zstd stream", got, "Download it again.", BadData)


def recognise(content: Content, lobster_name: bool) -> str:
    """Say which reader a file is for.

    Args:
        content: the file.
        lobster_name: its name is LOBSTER's; used only to say what is wrong with a file that isn't numbers.

    Returns:
        "dbn", "databento_csv" or "lobster".

    Raises:
        BadData: it is something else; the message says what, where that can be seen.
    """
    line = content.first_line
    if line.startswith(b"DBN"):
        return "dbn"
    header = line.split(b",")
    if b"ts_recv" in header or b"ts_event" in header or b"bid_px_00" in header:
        return "databento_csv"
    if len(header) > 1 and _NUMBERS.fullmatch(line):
        return "lobster"
    if lobster_name and len(header) > 1:
        raise must(
            f"{content.name}: row 1",
            "hold numbers",
            f"a header ({line[:40].decode(errors='replace')}…)",
            "LOBSTER files have none: cut the first line of both files.",
            BadData,
        )
    raise must(content.name, "be of a format that foxflow reads", _other(line), _DO, BadData)


def _other(line: bytes) -> str:
    """The name of a format that isn't read, as far as its first line shows it."""
    if line.startswith(b"PK\x03\x04"):
        return "a zip archive (Bybit's books come so)"
    if line.startswith(b"PAR1"):
        return "a Parquet file"
    if b"asks[0].price" in line:
        return "a Tardis book snapshot (crypto)"
    if re.match(rb"\d+ \{", line):
        return "a capture of exchange messages (hftbacktest, crypto)"
    if line.startswith(b"{"):
        return "JSON lines"
    return f"bytes beginning with {line[:16]!r}"
