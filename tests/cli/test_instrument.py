"""What is traded can be stated by options: a built-in name, or a tick and its worth."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tick", "0.01"), "--tick must go with --tick and --tick-value"),
        (("--tick-value", "1"), "--tick-value must go with --tick and --tick-value"),
        (("--instrument", "NOPE"), "instrument must be one of ES, US-EQUITY"),
        (("--tick", "a", "--tick-value", "1"), "tick must be a decimal number"),
        (("--tick", "0.01", "--tick-value", "1", "--zone", "Mars"), "time zone must be a name of the tz database"),
    ],
)
def test_terms_that_say_too_little_are_refused(command, words, said):
    code, out, err = command("data", __file__, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_generated_tape_has_its_own_instrument(command):
    code, _, err = command("run", "--seed", "1", "--instrument", "ES")
    assert code == 2
    assert "must go with a market file, got --data synthetic" in err


def test_stated_terms_reach_the_tape(command, shared_data):
    (good,) = shared_data.glob("bad/00_good_reference/*message*.csv")
    terms = ("--instrument", "XYZ", "--tick", "0.005", "--tick-value", "0.005")
    code, out, _ = command("data", str(good), *terms, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["instrument"], found["tick"]) == ("XYZ", "0.005")
