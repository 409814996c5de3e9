"""Great Expectations by itself, through its own API, and the gate on the same suite and frame."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foxflow.gate.checkpoint import Checkpoints
from foxflow.gate.frames import Frame
from foxflow.gate.suites import check

if TYPE_CHECKING:
    import pandas as pd

Expectation = dict[str, Any]


def context() -> Any:
    """A new one: the last one made is the one that Great Expectations looks things up in."""
    import great_expectations as gx

    return gx.get_context(mode="ephemeral")


@functools.cache
def whole_frames() -> Any:
    """The batch definition of a data frame given at the time of validation."""
    asset = context().data_sources.add_pandas("alone").add_dataframe_asset("frame")
    return asset.add_batch_definition_whole_dataframe("whole")


def success(batch: Any, *expectations: Expectation) -> bool:
    """What Great Expectations says of a batch by itself."""
    import great_expectations as gx

    return bool(batch.validate(gx.ExpectationSuite(name="alone", expectations=list(expectations))).success)


def of_frame(data: pd.DataFrame) -> Any:
    return whole_frames().get_batch({"dataframe": data})


def suite(folder: Path, name: str, *expectations: Expectation) -> Path:
    """A user's own suite in a folder."""
    text = {"name": name, "expectations": expectations, "meta": {"foxflow": {"checks": len(expectations)}}}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(text))
    return folder


def gate_says(folder: Path, data: pd.DataFrame, *expectations: Expectation) -> list[str]:
    """The faults that the gate finds with a suite of a user's on a frame; none is a pass."""
    frame = Frame(name="own", suite="own", data=data, rows=len(data), parameters={})
    return check(frame, suite(folder, "own", *expectations), Checkpoints())[1]
