"""Telling a store one entry of a run's journal. Each can be told again: a store keeps one of two equal ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foxflow import flow
from foxflow.errors import must
from foxflow.track.journal import Entry
from foxflow.track.store import Store
from foxflow.track.twins import Search, Twin, search

if TYPE_CHECKING:
    from mlflow.entities import Metric

TABLES = "mlflow.loggedArtifacts"
"""MLflow's own tag: which artifacts are tables of `log_table`, so that the compare page shows them side by side."""


def deliver(store: Store, run_id: str, entry: Entry, *, again: bool) -> Twin | None:
    """Send one entry.

    Args:
        store: where the run is.
        run_id: the run.
        entry: params, tags, metrics, data, file, table, twin or end.
        again: it may have been sent before, without an answer: what the store has is not sent twice.

    Returns:
        The twin, of a "twin" entry that found one.
    """
    if entry.kind == "twin":
        return _twin(store, run_id, Search(**entry.value))
    if entry.kind == "metrics" and again:
        _send_metrics(store, run_id, _missing(store, run_id, entry.value))
        return None
    senders: dict[str, Callable[[Store, str, Any], None]] = {
        "params": _send_params,
        "tags": _send_tags,
        "metrics": _send_metrics,
        "data": _send_data,
        "file": _send_file,
        "table": _send_table,
        "end": _send_end,
    }
    senders[entry.kind](store, run_id, entry.value)
    return None


def _send_params(store: Store, run_id: str, values: dict[str, str]) -> None:
    from mlflow.entities import Param

    store.client.log_batch(run_id, params=[Param(*pair) for pair in values.items()], synchronous=True)


def _send_tags(store: Store, run_id: str, values: dict[str, str]) -> None:
    from mlflow.entities import RunTag

    store.client.log_batch(run_id, tags=[RunTag(*pair) for pair in values.items()], synchronous=True)


def _send_metrics(store: Store, run_id: str, points: list[list[Any]]) -> None:
    if points:
        store.client.log_batch(run_id, metrics=[_metric(*point) for point in points], synchronous=True)


def _metric(key: str, value: float, at_ms: int, step: int) -> Metric:
    from mlflow.entities import Metric

    return Metric(key, value, at_ms, step)


def _missing(store: Store, run_id: str, points: list[list[Any]]) -> list[list[Any]]:
    have = {
        (m.key, m.value, m.timestamp, m.step)
        for key in {point[0] for point in points}
        for m in store.client.get_metric_history(run_id, key)
    }
    return [point for point in points if tuple(point) not in have]


def _send_data(store: Store, run_id: str, value: dict[str, str]) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    used = DatasetInput(Dataset(**value), [InputTag("mlflow.data.context", "training")])
    store.client.log_inputs(run_id, [used])


def _send_file(store: Store, run_id: str, value: dict[str, str | None]) -> None:
    path = Path(str(value["path"]))
    if not path.is_file():
        raise must(str(path), "be there to be sent", "no such file", "Put it back, or delete the run's folder.")
    store.client.log_artifact(run_id, str(path), value["below"])


def _send_table(store: Store, run_id: str, path: str) -> None:
    """As `log_table`, but that it does not append to a table that is there."""
    _send_file(store, run_id, {"path": path, "below": None})
    listed = json.loads(store.client.get_run(run_id).data.tags.get(TABLES, "[]"))
    table = {"path": Path(path).name, "type": "table"}
    if table not in listed:
        store.client.set_tag(run_id, TABLES, json.dumps([*listed, table]))


def _twin(store: Store, run_id: str, wanted: Search) -> Twin | None:
    found = search(store, wanted, run_id)
    verdict = "first" if found is None else flow.EQUAL if found.agrees else flow.DIVERGED
    tags = {"foxflow.verdict": verdict} | ({"foxflow.twin": found.run_id} if found else {})
    _send_tags(store, run_id, tags)
    return found


def _send_end(store: Store, run_id: str, value: dict[str, Any]) -> None:
    store.client.set_terminated(run_id, status=value["status"], end_time=value["at_ms"])
