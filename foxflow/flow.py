"""What the stages hand to one another: frozen values, from left to right, and nothing else.

train -Step-> record -Record-> comparison -Comparison-> explanation -Explanation-> proof; gate -Verdict-> exit code

Maps travel as sorted tuples of pairs, JSON as text, floats inside JSON text as written in the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foxflow.errors import must

if TYPE_CHECKING:
    import pyarrow as pa

EQUAL, DIVERGED, NOT_COMPARABLE, INCOMPLETE = "EQUAL", "DIVERGED", "NOT_COMPARABLE", "INCOMPLETE"
"""Verdicts over two records."""

DIVERGE, MISSING = "DIVERGE", "MISSING"
"""Verdicts over one buffer or group, beside EQUAL."""

TRAIN, EVAL, FINAL = "train", "eval", "final"
"""Phases of a run, in order; FINAL is the closing snapshot, step number `steps`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One buffer at one capture point, with its bytes already copied to the host where it is dumped."""

    k: int | None
    order: int
    group: str
    buffer: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    digest: str
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """What is known of a step's buffers before the step: a column each of `Captured`'s fields, in dataflow order.

    Made once and shared by all steps that capture alike; equal only to itself, so that what is made of one is kept.
    """

    k: tuple[int | None, ...]
    order: tuple[int, ...]
    group: tuple[str, ...]
    buffer: tuple[str, ...]
    dtype: tuple[str, ...]
    shape: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """A step's buffers; iterating makes a `Captured` of each."""

    columns: Columns
    digests: bytes
    """Their 16 bytes each, as in the text's hex digits."""
    data: tuple[bytes | None, ...] | None = None
    """The bytes of each that is dumped; None where none is."""

    @classmethod
    def of(cls, rows: Iterable[Captured]) -> Buffers:
        """Gather rows, in their order; what is gathered already stays as it is.

        Raises:
            Mistake: a digest is not `fx1:` and 32 lower-case hex digits.
        """
        if isinstance(rows, cls):
            return rows
        rows = tuple(rows)
        names = ("k", "order", "group", "buffer", "dtype", "shape", "nbytes")
        columns = Columns(**{name: tuple(getattr(row, name) for row in rows) for name in names})
        data = tuple(row.data for row in rows)
        dumped = any(copy is not None for copy in data)
        return cls(columns=columns, digests=b"".join(map(_raw, rows)), data=data if dumped else None)

    def __len__(self) -> int:
        return len(self.columns.buffer)

    def __iter__(self) -> Iterator[Captured]:
        c, text = self.columns, self.digests.hex()
        data = self.data or (None,) * len(self)
        for i, copy in enumerate(data):
            yield Captured(
                k=c.k[i],
                order=c.order[i],
                group=c.group[i],
                buffer=c.buffer[i],
                dtype=c.dtype[i],
                shape=c.shape[i],
                nbytes=c.nbytes[i],
                digest=f"fx1:{text[32 * i : 32 * i + 32]}",
                data=copy,
            )


def _raw(row: Captured) -> bytes:
    """The 16 bytes of a digest."""
    try:
        raw = bytes.fromhex(row.digest[4:])
    except ValueError:
        raw = b""
    if len(raw) != 16 or f"fx1:{raw.hex()}" != row.digest:
        rule = "have a digest of fx1: and 32 hex digits"
        raise must(f"buffer {row.buffer}", rule, repr(row.digest), "Make it with foxflow.digest.")
    return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Everything captured in one step; holds no live tensor."""

    step: int
    phase: str
    buffers: Buffers | tuple[Captured, ...]
    diag: str | None = None
    """The step's line of diag.jsonl, JSON text without a line end; None for steps without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A handle on a record's folder; the openers stream, so a record of any size fits.

    `digests()` yields Arrow batches in the order of the run with the columns of `DIGEST_COLUMNS`;
    `dump(step)` yields batches with one more column, `data` (large_binary).
    """

    path: str
    manifest: str
    complete: bool
    missing: tuple[str, ...]
    """What an incomplete record lacks, in words; empty for a complete one."""
    dump_steps: tuple[tuple[str, int], ...]
    """(phase, step) of each dump, in order."""
    digests: Callable[[], Iterator[pa.RecordBatch]]
    dump: Callable[[str, int], Iterator[pa.RecordBatch]]
    dump_unchecked: Callable[[str, int], Iterator[pa.RecordBatch]]
    """As `dump`, the data as they lie in the file, without its checksums, and text plain: for those who check every
    digest."""
    read: Callable[[str], bytes | None]
    """Bytes of one of the record's other files by name (diag.jsonl, eval_summary.json …), None if absent."""


def manifest_digest(record: Record) -> str:
    """SHA-256 of manifest.json in hex, which seals all other files (the MLflow tag `foxflow.manifest`)."""
    return hashlib.sha256(record.manifest.encode()).hexdigest()


DIGEST_COLUMNS = ("step", "phase", "k", "rank", "order", "group", "buffer", "dtype", "shape", "nbytes", "digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a run: step, iteration of the inner loop, group and buffer."""

    step: int
    k: int | None
    group: str
    buffer: str
    phase: str = TRAIN

    @property
    def place(self) -> str:
        """«step 2, buffer iqn_cos (k 1)» or «eval step 7, buffer obs»."""
        phase = "" if self.phase == TRAIN else f"{self.phase} "
        inner = "" if self.k is None else f" (k {self.k})"
        return f"{phase}step {self.step}, buffer {self.buffer}{inner}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferDiff:
    """One buffer that is not EQUAL. `max_abs` … `permutation` are None where only digests were recorded."""

    name: str
    k: int | None
    verdict: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    differing: int | None = None
    max_abs: float | str | None = None
    """A number, or "nan" / "inf" as text where that is the truth."""
    max_ulp: int | None = None
    first_index: tuple[int, ...] | None = None
    permutation: bool | None = None
    nonfinite: tuple[int, int] | None = None
    """NaN and Inf elements in A and in B, added over both kinds."""
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDiff:
    """One group at one step: its verdict, how many buffers it has, and those that are not EQUAL."""

    group: str
    verdict: str
    compared: int
    buffers: tuple[BufferDiff, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """One step of two records, every group in dataflow order."""

    step: int
    phase: str
    groups: tuple[GroupDiff, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two records, buffer by buffer. The verdict follows the table in docs: the first line that applies."""

    a: str
    b: str
    verdict: str
    reason: str | None
    first: Where | None
    compared: int
    differing: int
    missing: int
    steps: tuple[StepDiff, ...]
    unlike: tuple[tuple[str, str, str], ...] = ()
    """What differs of seed, config, source and data: (field, A's, B's)."""
    environment: tuple[tuple[str, str, str], ...] = ()
    """What differs of the environment: evidence, neither excuse nor fault."""
    dumps: tuple[tuple[str, int, int], ...] = ()
    """Per group: (group, dumped buffers seen on both sides, of these differing)."""
    files: tuple[tuple[str, bool | None], ...] = ()
    """Summaries and diag.jsonl (without elapsed_s): (file, bytes equal), None where a side lacks it."""
    fingerprints: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Where a divergence begins: a buffer that differs though all that it was made from is EQUAL."""

    where: Where
    cause: str
    """race, unseeded-init, rng, input, order, thread-count, batch-composition, stale-state, resume, precision,
    bit-flip, environment, clock or unknown."""
    confidence: str
    """certain, likely or open, as far as records alone can tell."""
    producer: str
    rule: str
    sentence: str
    evidence: tuple[str, ...]
    wakes_at: int | None = None
    """For a dormant divergence: the step in which it first changes state beyond itself."""
    also: tuple[str, ...] = ()
    """Other buffers that the same producer made at the same place and that differ too."""
    repeats: int = 1
    """At how many places (steps, iterations) the producer began a divergence anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every root of a comparison, in dataflow order."""

    comparison: Comparison
    roots: tuple[Root, ...]
    case: str | None = None
    """The sub-case of the reference trainer's decision tree, in words."""
    ask: tuple[str, ...] = ()
    """What to record next, where the records can't tell."""

    @property
    def sentence(self) -> str:
        """The first root's sentence; without roots, why there is none."""
        if self.roots:
            return self.roots[0].sentence
        if self.comparison.verdict == EQUAL:
            return f"No divergence: {self.comparison.compared} buffers compared, all EQUAL."
        if self.comparison.verdict == DIVERGED:
            return f"No recorded buffer differs, yet the runs do: {self.comparison.reason}."
        return f"Nothing to explain: {self.comparison.reason}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment on an accused producer."""

    name: str
    repeats: int
    outcome: str
    meaning: str
    reproduced: bool
    """The difference came back under the experiment's own hands."""
    command: str
    """How to repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the experiments on a root came to."""

    explanation: Explanation
    accused: Root | None
    proven: bool
    experiments: tuple[Experiment, ...]
    folder: str | None = None
    """Where inputs, digests and commands of the experiments are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One Great Expectations suite as it ran: how many expectations were evaluated, and which failed."""

    name: str
    evaluated: int
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says of a comparison."""

    passed: bool
    sentence: str
    suites: tuple[Suite, ...] = field(default=())
