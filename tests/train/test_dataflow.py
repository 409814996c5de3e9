"""The table of buffers is whole: unique names, known inputs, the counts of the design note."""

from __future__ import annotations

from collections import Counter

from foxflow.config import PRESETS
from foxflow.train.dataflow import buffers

TABLE = buffers(PRESETS["default"])
TWICE = {"per_prng_state", "iqn_prng_state"}


def test_groups_have_as_many_buffers_as_the_note_counts():
    counts = Counter(b.group for b in TABLE)
    assert {group: counts[group] for group in "GHIJK"} == {"G": 6, "H": 5, "I": 11, "J": 6, "K": 3}


def test_names_are_unique_but_for_the_states_that_are_captured_twice():
    counts = Counter(b.name for b in TABLE)
    assert {name for name, n in counts.items() if n > 1} == TWICE


def test_every_input_is_a_buffer():
    known = {b.name for b in TABLE}
    assert {i for b in TABLE for i in b.inputs if i.rstrip("-~") not in known} == set()


def test_an_input_of_the_same_step_is_captured_before_its_reader_or_in_the_loop_before_it():
    """Buffers of the loop may be read after it; nothing reads what comes later."""
    stage = {"s": 0, "e": 1, "k": 2, "l": 3}
    first = {}
    for position, b in enumerate(TABLE):
        first.setdefault(b.name, (stage[b.at], position))
    late = [
        (b.name, i)
        for position, b in enumerate(TABLE)
        for i in b.inputs
        if i[-1] not in "-~" and first[i] >= (stage[b.at], position) and i not in TWICE
    ]
    assert late == []
