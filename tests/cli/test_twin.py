"""What is said of a run's twin, and the exit code where one is required."""

from __future__ import annotations

import pytest
from track.small_record import write

from foxflow.cli.show import print_outcome, twin_code, twin_sentence
from foxflow.experiments.run import Outcome
from foxflow.track import Twin
from foxflow.track.twins import MANY

AWAY = "the store went away: it can't be reached; 'foxflow sync' sends the rest"


def twin(*, agrees=True, agree=1):
    return Twin(run_id="ab12" * 8, run_name="t", fingerprint="fx1:0", agrees=agrees, agree=agree)


@pytest.fixture
def outcome(tmp_path):
    record = write(tmp_path / "r")
    facts = {
        "run_id": "cd34" * 8,
        "run_name": "n",
        "record": record,
        "fingerprint": "fx1:0",
        "steps": 4,
        "seconds": 1.0,
    }
    return lambda twin, unsent=None: Outcome(**facts, twin=twin, unsent=unsent)


@pytest.mark.parametrize(
    ("found", "unsent", "code", "says"),
    [
        (None, None, 0, "none yet"),
        (None, AWAY, 3, "not known: the store did not answer"),
        (twin(), None, 0, "same as run ab12ab12 (2 runs agree)"),
        (twin(agree=MANY), None, 0, f"({MANY + 1} or more runs agree)"),
        (twin(), AWAY, 0, "same as run ab12ab12"),
        (twin(agrees=False, agree=0), None, 1, "departs from run ab12ab12"),
    ],
)
def test_a_twin_is_told_and_where_it_is_required_its_absence_is_no_pass(outcome, found, unsent, code, says):
    ended = outcome(found, unsent)
    assert says in twin_sentence(ended)
    assert twin_code(ended) == code


def test_what_waits_in_the_spool_is_said_on_stderr_alone(outcome, capsys):
    print_outcome(outcome(None, AWAY), as_json=True)
    out, err = capsys.readouterr()
    assert (AWAY in out, err) == (False, f"foxflow: {AWAY}\n")
