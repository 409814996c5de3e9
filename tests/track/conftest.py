"""A migrated store made once a session and copied per test."""

import shutil

import pytest

from foxflow.track.store import open_store

VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_EXPERIMENT_NAME", "unused")
        patch.chdir(folder)
        open_store()
    return folder / "mlruns" / "mlflow.db"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty current folder and no MLflow variables."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def place(fresh, migrated):
    """A current folder with a store of its own."""
    (fresh / "mlruns").mkdir()
    shutil.copy(migrated, fresh / "mlruns" / "mlflow.db")
    return fresh
