"""Frames that the suites look at: a record's digest rows, its environment, its files, and two records in pairs.

Pairs have the columns of `PAIR`; a missing partner is a null, and nothing else is. `k` is -1 where there is none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foxflow.digest import DTYPES
from foxflow.flow import DIGEST_COLUMNS, Record
from foxflow.leaves import leaves

if TYPE_CHECKING:
    import pandas as pd

PLACE = ("phase", "step", "k", "rank", "buffer")
PAIR = ("group", *PLACE, "digest_a", "digest_b")
SETTINGS = ("deterministic_algorithms", "float_contract", "arithmetic", "digest", "threads", "device")
"""Keys of the manifest's environment that fix the bits, or say what they were made with."""

JSON_FILES, DIAG = ("eval_summary.json", "alpha_rl_train_summary.json"), "diag.jsonl"
NOT_COMPARED = "elapsed_s"

_Leaves = dict[tuple[int, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one run of a suite looks at, and the numbers that the suite's parameters stand for."""

    name: str
    suite: str
    data: pd.DataFrame
    rows: int
    """How many the data must have, whatever the suite asks."""
    parameters: dict[str, object]


def digests(record: Record) -> pd.DataFrame:
    """A record's digest rows, with `complete` and `advance`, by how much each row's step leaves the one before.

    The one before a phase's first row is the step before the first that the manifest declares.
    """
    import pandas as pd
    import pyarrow as pa

    tables = [pa.Table.from_batches([_plain(batch)]) for batch in record.digests()]
    if not tables:
        return pd.DataFrame(columns=[*DIGEST_COLUMNS, "complete", "advance"])
    data = pa.concat_tables(tables).to_pandas()
    data["k"] = data["k"].fillna(-1).astype("int64")
    data["complete"] = "true" if record.complete else "false"
    data["advance"] = data.groupby("phase", sort=False)["step"].diff()
    for phase, start, _ in _manifest(record).get("capture", {}).get("steps") or ():
        first = data.index[data["phase"] == phase][:1]
        data.loc[first, "advance"] = data.loc[first, "advance"].fillna(data.loc[first, "step"] - (start - 1))
    return data


def paired(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Digest rows of two records side by side, in A's order; dtype and shape are part of the text compared."""
    sides = [
        side[["group", *PLACE]].assign(digest=side["digest"] + " " + side["dtype"] + " " + side["shape"].astype(str))
        for side in (a, b)
    ]
    both = sides[0].merge(sides[1], on=list(PLACE), how="outer", suffixes=("_a", "_b"), sort=False)
    both["group"] = both["group_a"].fillna(both["group_b"])
    return both[list(PAIR)]


def environment(record: Record) -> pd.DataFrame:
    """One row, one column for each of `SETTINGS`, as text; null where the manifest doesn't say."""
    import pandas as pd

    stated = _manifest(record).get("environment") or {}
    row = {name: [_text(stated[name]) if name in stated else None] for name in SETTINGS}
    return pd.DataFrame(row, dtype=object)


def files(record: Record, name: str) -> Frame:
    """Every file of the manifest: the SHA-256 stated and the one found."""
    stated = _manifest(record).get("files") or {}
    found = {}
    for listed in stated:
        path = Path(record.path) / listed
        if path.is_file():
            with path.open("rb") as file:
                found[listed] = hashlib.file_digest(file, "sha256").hexdigest()
    return _leaf_frame(name, *({(0, file): sha for file, sha in side.items()} for side in (stated, found)))


def texts(a: Record, b: Record) -> Iterator[Frame]:
    """The summaries and diag.jsonl of both records, leaf by leaf, where either record has them."""
    for name in (*JSON_FILES, DIAG):
        contents = [record.read(name) for record in (a, b)]
        if contents != [None, None]:
            leaves = [_leaves(content or b"", lines=name == DIAG) for content in contents]
            yield _leaf_frame(name, *leaves)


def dumped(a: Record, b: Record) -> Iterator[Frame]:
    """Every buffer that both records dumped, as arrays side by side, one frame a step.

    Their bytes are compared, not their digests, so that a fault of fx1 can't hide in both.
    """
    import pandas as pd

    for phase, step in (at for at in a.dump_steps if at in set(b.dump_steps)):
        sides = [dict(_dump(record, phase, step)) for record in (a, b)]
        rows = [(*place, array, sides[1][place]) for place, array in sides[0].items() if place in sides[1]]
        if rows:
            data = pd.DataFrame(rows, columns=["group", *PLACE, "a", "b"])
            yield Frame(name=f"dump {phase} {step}", suite="buffers", data=data, rows=len(rows), parameters={})


def _dump(record: Record, phase: str, step: int) -> Iterator[tuple[tuple[object, ...], Any]]:
    """Place and array of each dumped buffer."""
    for batch in record.dump(phase, step):
        places = zip(*(_plain(batch)[name].to_pylist() for name in ("group", *PLACE, "dtype", "shape")), strict=True)
        for (*place, dtype, shape), data in zip(places, batch.column("data"), strict=True):
            place[3] = -1 if place[3] is None else place[3]
            yield tuple(place), _array(dtype, shape, b"" if not data.is_valid else data.as_buffer())


def _array(dtype: str, shape: str, content: Any) -> np.ndarray[Any, Any]:
    """A dumped buffer's bytes as an array; elements of a dtype that numpy lacks are bytes alone."""
    _, size = DTYPES.get(dtype, (0, 1))
    numeric = dtype in DTYPES and dtype[1:].isdigit()
    array = np.frombuffer(content, "?" if dtype == "bool" else f"<{dtype[0]}{size}" if numeric else f"V{size}")
    sizes = json.loads(shape)
    return array.reshape(sizes) if array.size == math.prod(sizes) else array


def _plain(batch: Any) -> Any:
    """The digest columns with dictionaries decoded, for batches whose dictionaries differ."""
    import pyarrow as pa

    columns = [batch.column(name) for name in DIGEST_COLUMNS]
    decoded = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    return pa.RecordBatch.from_arrays(decoded, names=list(DIGEST_COLUMNS))


def _leaf_frame(name: str, a: _Leaves, b: _Leaves) -> Frame:
    import pandas as pd

    rows = [("", "", step, -1, 0, leaf, a.get((step, leaf)), b.get((step, leaf))) for step, leaf in {**a, **b}]
    data = pd.DataFrame(rows, columns=list(PAIR))
    pairs = max(len(a), 1)
    return Frame(name=name, suite="comparison", data=data, rows=pairs, parameters={"pairs": pairs})


def _leaves(content: bytes, *, lines: bool) -> _Leaves:
    """(line, dotted name) -> the value as the file writes it; of a whole file its SHA-256 too, which sees key order."""
    out: _Leaves = {} if lines or not content else {(0, "SHA-256"): hashlib.sha256(content).hexdigest()}
    for number, text in enumerate(content.splitlines() if lines else [content] if content else []):
        try:
            value = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_number)
        except ValueError:
            out[number, "not JSON"] = hashlib.sha256(text).hexdigest()
            continue
        if lines and isinstance(value, dict):
            value.pop(NOT_COMPARED, None)
        out.update({(number, leaf): json.dumps(found) for leaf, found in leaves(value)})
    return out


def _number(written: str) -> str:
    """Numbers stay as written: 0.0, -0.0 and 0 are three texts."""
    return f"number {written}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _manifest(record: Record) -> dict[str, Any]:
    return dict(json.loads(record.manifest))
