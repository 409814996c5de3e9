"""A comparison told: JSON by the contract, and a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from record.making import record, steps

from foxflow.comparison import as_json, as_table, compare


def diverging(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray:
    if step >= 2 and buffer == "q_logits":
        array[0] = np.nan if step == 4 else array[0][::-1]
    return array


def test_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(dump=frozenset({2, 4})))
    record(tmp_path / "b", steps(dump=frozenset({2, 4}), edit=diverging))
    found = json.loads(json.dumps(as_json(compare(tmp_path / "a", tmp_path / "b")), allow_nan=False))
    assert list(found) == ["verdict", "reason", "first", "compared", "differing", "steps"]
    assert found["first"] == {"step": 2, "k": 0, "group": "H", "buffer": "q_logits"}
    assert found["steps"][0] == {
        "step": 0,
        "groups": [{"group": group, "verdict": "EQUAL", "buffers": []} for group in "WDGH"],
    }
    dumped = found["steps"][2]["groups"][3]["buffers"][1]
    assert list(dumped) == [
        *("name", "k", "verdict", "dtype", "shape", "elements"),
        *("differing", "max_abs", "max_ulp", "first_index", "permutation"),
    ]
    assert (dumped["k"], dumped["shape"], dumped["first_index"], dumped["permutation"]) == (1, [3, 4], [0, 0], True)
    assert found["steps"][4]["groups"][3]["buffers"][1]["max_abs"] == "nan"


def test_the_table_gives_a_verdict_per_step_and_group_and_names_the_first_buffers(tmp_path: Path) -> None:
    record(tmp_path / "a", steps(dump=frozenset({2})))
    record(tmp_path / "b", steps(dump=frozenset({2}), edit=diverging))
    lines = as_table(compare(tmp_path / "a", tmp_path / "b")).splitlines()
    assert lines[0] == "DIVERGED: 36 compared, 8 differing, 0 missing"
    assert [line.split() for line in lines[1:4]] == [
        ["step", "W", "D", "G", "H"],
        ["0-1", "EQUAL", "EQUAL", "EQUAL", "EQUAL"],
        ["2-5", "EQUAL", "EQUAL", "EQUAL", "DIVERGE"],
    ]
    assert lines[4] == "step 2"
    assert lines[5].startswith("  H  DIVERGE max|Δ|=")
    assert lines[5].endswith("(4 elements)")
    assert "q_logits (k 1)  DIVERGE max|Δ|=" in lines[7]
    assert "only the order differs" in lines[7]
    assert lines[-1] == "… and 2 more steps with differences"


def test_the_table_says_why_there_is_no_verdict(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", iter(()), seed=43)
    text = as_table(compare(tmp_path / "a", tmp_path / "b"))
    assert text.startswith("NOT_COMPARABLE: 0 compared, 0 differing, 36 missing\nunlike seed (42, 43)\n")
    assert "MISSING" in text
