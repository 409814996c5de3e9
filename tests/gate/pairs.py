"""Judging pairs of records, and records seen through an edit of their rows."""

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from foxflow.comparison import compare
from foxflow.gate import judge

PAIR_EQUAL = "expect_column_pair_values_to_be_equal(column_A=digest_a, column_B=digest_b, ignore_row_if=neither)"


def judged(a, b, /, **changes):
    return judge(dataclasses.replace(compare(a, b), **changes), a, b)


def faults(verdict, suite):
    assert not verdict.passed
    return " | ".join(next(s for s in verdict.suites if s.name == suite).failed)


def seen_through(record, change):
    """The record as it is but for its digest rows, which `change` makes of the table that is there."""
    return dataclasses.replace(
        record, digests=lambda: change(pa.Table.from_batches(record.digests())).combine_chunks().to_batches()
    )


def without(table, step, buffer):
    return table.filter(
        pc.invert(pc.and_(pc.equal(table["step"], step), pc.equal(table["buffer"].cast("string"), buffer)))
    )


def with_digests(table, change):
    digests = pa.array([change(i, text) for i, text in enumerate(table["digest"].to_pylist())], pa.string())
    return table.set_column(table.schema.get_field_index("digest"), "digest", digests)
