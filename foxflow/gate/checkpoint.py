"""Great Expectations itself: a checkpoint for each suite, run once for each frame, and one site of Data Docs for all.

A checkpoint that is given many files looks at the last one alone, hence a run for each frame.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foxflow.gate.frames import Frame

QUIET = {"GX_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
"""Great Expectations reads these at import."""


class Checkpoints:
    """The checkpoints of one gate, in a context that lives in memory alone and draws no progress bars."""

    def __init__(self) -> None:
        gx = _gx()
        from great_expectations.data_context.types.base import ProgressBarsConfig

        self._context = gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        frames = self._context.data_sources.add_pandas("foxflow").add_dataframe_asset("frame")
        self._batch = frames.add_batch_definition_whole_dataframe("whole")
        self._checkpoints: dict[str, Any] = {}
        self._keys: list[Any] = []
        self._time = datetime.datetime.now(datetime.UTC)

    def run(self, frame: Frame, suite: dict[str, Any]) -> tuple[int, list[Any]]:
        """Validate a frame.

        Args:
            frame: the data and the suite's parameters.
            suite: of the frame's name, as its file says it.

        Returns:
            How many expectations the suite has left after Great Expectations read it, and the result of each that ran.
        """
        if frame.suite not in self._checkpoints:
            self._checkpoints[frame.suite] = self._checkpoint(frame.suite, suite)
        checkpoint = self._checkpoints[frame.suite]
        ended = checkpoint.run(
            batch_parameters={"dataframe": frame.data},
            expectation_parameters=frame.parameters,
            run_id=_gx().RunIdentifier(run_name=frame.name.replace(" ", "-"), run_time=self._time),
        )
        ((key, result),) = ended.run_results.items()
        self._keys.append(key)
        return len(checkpoint.validation_definitions[0].suite.expectations), list(result.results)

    def _checkpoint(self, name: str, suite: dict[str, Any]) -> Any:
        gx, context = _gx(), self._context
        read = gx.ExpectationSuite(name=name, expectations=suite["expectations"], meta=suite["meta"])
        definition = gx.ValidationDefinition(name=name, data=self._batch, suite=context.suites.add(read))
        checks = [context.validation_definitions.add(definition)]
        return context.checkpoints.add(
            gx.Checkpoint(name=name, validation_definitions=checks, actions=[], result_format="BASIC")
        )

    def write_docs(self, folder: Path, said: Sequence[str]) -> None:
        """Write Data Docs of all that ran.

        Args:
            folder: of the site.
            said: the gate's sentence and what failed.

        Raises:
            Mistake: the folder can't be written.
        """
        from foxflow.gate import docs

        docs.write(self._context, folder, self._keys, said)


@functools.cache
def _gx() -> Any:
    os.environ.update(QUIET)
    import great_expectations

    import foxflow.gate.expectations  # noqa: F401 (registers them before any suite is read)

    return great_expectations
