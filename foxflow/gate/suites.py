"""Running a suite of expectations/*.json on a frame with Great Expectations, so that it can't pass by accident.

Great Expectations drops an expectation that it doesn't know, passes every row-wise check of an empty frame, skips
nulls, and reports a failed computation as a result: each of these fails here.
"""

from __future__ import annotations

import functools
import html
import json
import os
from pathlib import Path
from typing import Any

from foxflow.gate.frames import Frame

NAMES = ("record", "comparison", "environment")
QUIET = {"GX_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
"""Great Expectations reads these at import."""

Outcome = tuple[int, list[str]]
"""How many expectations were evaluated, and what failed, each a sentence."""


def folder() -> Path:
    """Where the suites are: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "expectations"
    return installed if installed.is_dir() else package.parent / "expectations"


def check(frame: Frame, suites: Path, docs: Path | None) -> Outcome:
    """Run the frame's suite on it.

    Args:
        frame: the data, the suite's name and its parameters.
        suites: the folder of the suites.
        docs: a folder for a page per frame, or None.
    """
    text, faults = _read(suites / f"{frame.suite}.json")
    if text is None:
        return 0, faults
    if frame.data.empty:
        return 0, [f"{frame.name}: the frame is empty, nothing was checked"]
    listed = text["expectations"]
    try:
        suite = _gx().ExpectationSuite(name=frame.suite, expectations=listed, meta=text.get("meta"))
        result = (
            _batches()
            .get_batch({"dataframe": frame.data})
            .validate(suite, result_format="BASIC", expectation_parameters=frame.parameters)
        )
    except Exception as error:
        # Whatever a hand-edited suite makes Great Expectations raise is a failed gate, not a crash.
        return 0, [f"{frame.name}: the suite can't be run: {_line(error)}"]
    failed = [f"{frame.name}: {what}" for one in result.results if (what := _fault(one))]
    dropped = len(listed) - min(len(suite.expectations), len(result.results))
    if dropped:
        failed.append(f"{frame.name}: {dropped} of {len(listed)} expectations are unknown and were dropped")
    if docs is not None:
        _write_page(result, docs / f"{frame.suite}-{frame.name.replace(' ', '-')}.html")
    return len(result.results), failed


def _read(path: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """A suite's JSON, or what is wrong with it; `meta.foxflow.checks` says how many checks it must at least have."""
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        listed, least = text["expectations"], text["meta"]["foxflow"]["checks"]
        known = isinstance(listed, list) and isinstance(least, int)
    except FileNotFoundError:
        return None, [f"the suite {path.name} is missing"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, [f"the suite {path.name} can't be read: {type(error).__name__} {_line(error)}"]
    if not known or not listed:
        return None, [f"the suite {path.name} has no checks"]
    if len(listed) < least:
        return None, [f"the suite {path.name} must have {least} checks (meta.foxflow.checks), has {len(listed)}"]
    return text, []


def _fault(one: Any) -> str | None:
    """What is wrong with one expectation's result, None where it looked at something and all of it was well."""
    config, result = one.expectation_config, one.result or {}
    kwargs = {k: v for k, v in config.kwargs.items() if k != "batch_id"}
    shown = ", ".join(f"{k}={str(v)[:60]}" for k, v in kwargs.items())
    said = f"{config.type}({shown})"
    if not result:
        return f"{said} could not be computed"
    if one.success is not True:
        return f"{said}{_seen(result)}"
    if result.get("element_count") == 0:
        return f"{said} looked at no row"
    if "element_count" in result and result.get("missing_count"):
        return f"{said} skipped {result['missing_count']} rows with nulls"
    return None


def _seen(result: dict[str, Any]) -> str:
    if "unexpected_count" in result:
        first = str(result.get("partial_unexpected_list", [])[:1])[:200]
        return f" fails for {result['unexpected_count']} of {result['element_count']} rows, first {first}"
    return f" fails, observed {str(result.get('observed_value', result))[:200]}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


@functools.cache
def _gx() -> Any:
    os.environ.update(QUIET)
    import great_expectations

    return great_expectations


@functools.cache
def _batches() -> Any:
    """A data frame's batch definition in a context that lives in memory alone and draws no progress bars."""
    context = _gx().get_context(mode="ephemeral")
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return (
        context.data_sources.add_pandas("foxflow")
        .add_dataframe_asset("frame")
        .add_batch_definition_whole_dataframe("whole")
    )


def _write_page(result: Any, path: Path) -> None:
    """Great Expectations' own page of the result, as in Data Docs."""
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    result.meta["run_id"] = {"run_name": html.escape(path.stem), "run_time": ""}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result)), encoding="utf-8")
