"""Great Expectations itself: each frame has a checkpoint of its own, and all of them one site of Data Docs.

A checkpoint over many files looks at the last one alone, hence one for each frame.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foxflow.errors import must
from foxflow.gate.frames import Frame

QUIET = {"GX_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
"""Great Expectations reads these at import."""
NAME = "foxflow"


class Checkpoints:
    """The checkpoints of one gate, in a context that lives in memory alone and draws no progress bars."""

    def __init__(self) -> None:
        gx = _gx()
        from great_expectations.data_context.types.base import ProgressBarsConfig

        self._context = gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        self._frames = self._context.data_sources.add_pandas(NAME)
        self._suites: dict[str, Any] = {}
        self._run = gx.RunIdentifier(run_name=NAME)

    def run(self, frame: Frame, suite: dict[str, Any]) -> tuple[int, list[Any]]:
        """Validate a frame.

        Args:
            frame: the data and the suite's parameters.
            suite: of the frame's name, as its file says it.

        Returns:
            How many expectations the suite has left after Great Expectations read it, and the result of each that ran.
        """
        gx = _gx()
        if frame.suite not in self._suites:
            read = gx.ExpectationSuite(name=frame.suite, expectations=suite["expectations"], meta=suite["meta"])
            self._suites[frame.suite] = self._context.suites.add(read)
        held = self._suites[frame.suite]
        name = frame.name.replace(" ", "-")
        batch = self._frames.add_dataframe_asset(name).add_batch_definition_whole_dataframe("whole")
        definition = gx.ValidationDefinition(name=name, data=batch, suite=held)
        checkpoint = self._context.checkpoints.add(
            gx.Checkpoint(
                name=name, validation_definitions=[self._context.validation_definitions.add(definition)], actions=[],
                result_format="BASIC",
            )
        )  # fmt: skip
        parameters = {"batch_parameters": {"dataframe": frame.data}, "expectation_parameters": frame.parameters}
        (result,) = checkpoint.run(run_id=self._run, **parameters).run_results.values()
        return len(held.expectations), list(result.results)

    def write_docs(self, folder: Path) -> None:
        """Build the site of all that ran: index.html, a page for each suite and one for each frame.

        Raises:
            Mistake: the folder can't be written.
        """
        for site in self._context.get_site_names():
            self._context.delete_data_docs_site(site)
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())}
        site = {"class_name": "SiteBuilder", "show_how_to_buttons": False, "store_backend": store}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._context.add_data_docs_site(NAME, {**site, "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"}})
            self._context.build_data_docs([NAME])
        except OSError as error:
            raise must("--docs", "name a folder that can be written", str(error)) from error


def pages(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Path below the folder and content of each page of Data Docs; fonts and pictures, which no page shows, are not."""
    for path in sorted(folder.rglob("*.html")):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


@functools.cache
def _gx() -> Any:
    os.environ.update(QUIET)
    import great_expectations

    import foxflow.gate.expectations  # noqa: F401 (registers them before any suite is read)

    return great_expectations
