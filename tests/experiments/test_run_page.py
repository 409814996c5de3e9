"""What a run's page in MLflow shows: curves, the data, where it was made."""

from __future__ import annotations

import json

import pytest
from track.small_record import write

from foxflow.config import Config, Recording
from foxflow.experiments import page
from foxflow.experiments.run import Options, load_tape
from foxflow.flow import EVAL, TRAIN, Step
from foxflow.track import open_run
from foxflow.track.store import open_store

ENVIRONMENT = {"device": "cpu"}


def step(phase, **fields):
    return Step(step=3, phase=phase, buffers=(), diag=json.dumps(fields))


def test_curves_are_grouped_and_those_of_evaluation_stand_apart_and_no_digest_is_a_metric():
    line = {"loss": {"q": 0.5}, "env": {"equity_usd": 1.0}, "checksums": {"W": "fx1:0"}, "elapsed_s": 1.0}
    assert page.metrics(step(TRAIN, **line)) == {"loss/q": 0.5, "env/equity_usd": 1.0}
    assert page.metrics(step(EVAL, env={"equity_usd": 2.0})) == {"eval/env/equity_usd": 2.0}


def test_the_numbers_of_the_evaluation_stand_side_by_side(tmp_path):
    assert page.summary_metrics(write(tmp_path / "r")) == {"eval/summary/b_size": 8.0, "eval/summary/win_rate": 0.5}
    assert page.summary_metrics(write(tmp_path / "none", summaries={})) == {}


def test_the_tape_is_the_runs_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    options = Options(config=Config(seed=5, steps=12), recording=Recording())
    run = open_run("x", {}, {})
    page.note_data(run, options, load_tape(options))
    run.close(None)
    (used,) = open_store().client.get_run(run.run_id).inputs.dataset_inputs
    assert used.dataset.name == "synthetic(5)"
    assert json.loads(used.dataset.source) == {"generator": "synthetic", "seed": 5, "rows": 4096}
    assert (used.tags[0].key, used.tags[0].value) == ("mlflow.data.context", "training")


@pytest.mark.parametrize(
    ("state", "specimens", "clean"),
    [
        (("c0", ""), (), "true"),
        (None, (), "true"),
        (("c0", "ab"), (), "false"),
        (("c0", "unknown"), (), "false"),
        (("c0", ""), ("unseeded_outcome",), "false"),
    ],
)
def test_a_run_is_clean_without_specimens_and_changes(state, specimens, clean):
    tags = page.tags(Config(seed=1, specimens=specimens), ENVIRONMENT, "aa", state)
    assert tags["foxflow.clean"] == clean
    assert ("foxflow.specimens" in tags) == bool(specimens)
