"""The table of buffers is whole: unique names, known inputs, the counts of the design note."""

from __future__ import annotations

from collections import Counter
from graphlib import TopologicalSorter

from foxflow.config import PRESETS
from foxflow.train.dataflow import buffers

TABLE = buffers(PRESETS["default"])
TWICE = {"per_prng_state", "iqn_prng_state"}
WRITTEN_BEFORE_THE_LOOP = {"per_len"}
"""Captured after it, with the largest priority, and read in it."""


def test_groups_have_as_many_buffers_as_the_note_counts():
    counts = Counter(b.group for b in TABLE)
    assert {group: counts[group] for group in "GHIJK"} == {"G": 6, "H": 5, "I": 11, "J": 6, "K": 3}


def test_names_are_unique_but_for_the_states_that_are_captured_twice():
    counts = Counter(b.name for b in TABLE)
    assert {name for name, n in counts.items() if n > 1} == TWICE


def test_every_input_is_a_buffer():
    known = {b.name for b in TABLE}
    assert {i for b in TABLE for i in b.inputs if i.rstrip("-~") not in known} == set()


def test_an_input_of_the_same_step_is_captured_at_no_later_point_than_its_reader():
    """Buffers of the loop may be read after it."""
    points = {b.name: "sekl".index(b.at) for b in reversed(TABLE)}
    late = [(b.name, i) for b in TABLE for i in b.inputs if i[-1] not in "-~" and points[i] > "sekl".index(b.at)]
    assert {i for _, i in late} == WRITTEN_BEFORE_THE_LOOP


def test_the_graph_of_one_step_has_no_cycle():
    """`isv` reads `hold_steps`, which has a later row but nothing of `isv` in it."""
    graph = {b.name: {i for i in b.inputs if i[-1] not in "-~" and i not in TWICE} for b in TABLE}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)
