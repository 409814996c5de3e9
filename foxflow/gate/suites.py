"""Running a suite of expectations/*.json, or of a user's, on a frame, so that it can't pass by accident.

Great Expectations drops an expectation that it doesn't know, passes every row-wise check of an empty frame, skips
nulls, and reports a failed computation as a result: each of these fails here, whatever the suite says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foxflow.gate.checkpoint import Checkpoints
from foxflow.gate.frames import Frame

NAMES = ("record", "comparison", "environment", "buffers")
SEES_NULLS = ("expect_buffers_to_be_bit_equal", "expect_column_values_to_be_null")
"""Expectations that skip no null."""

Outcome = tuple[int, list[str]]
"""How many expectations were evaluated, and what failed, each a sentence."""


def folder() -> Path:
    """Where the suites are: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "expectations"
    return installed if installed.is_dir() else package.parent / "expectations"


def check(frame: Frame, suites: Path, checkpoints: Checkpoints) -> Outcome:
    """Run the frame's suite on it.

    Args:
        frame: the data, the suite's name and its parameters.
        suites: the folder of the suites.
        checkpoints: of this gate.
    """
    text, faults = _read(suites / f"{frame.suite}.json")
    if text is None:
        return 0, faults
    if frame.data.empty:
        return 0, [f"{frame.name}: the frame is empty, nothing was checked"]
    listed = text["expectations"]
    try:
        known, results = checkpoints.run(frame, text)
    except Exception as error:
        # Whatever a hand-edited suite makes Great Expectations raise is a failed gate, not a crash.
        return 0, [f"{frame.name}: the suite can't be run: {_line(error)}"]
    failed = [f"{frame.name}: {what}" for one in results if (what := _fault(one, frame))]
    if len(frame.data) != frame.rows:
        failed.append(f"{frame.name}: the frame has {len(frame.data)} rows, must have {frame.rows}")
    if dropped := len(listed) - min(known, len(results)):
        failed.append(f"{frame.name}: {dropped} of {len(listed)} expectations are unknown and were dropped")
    return len(results), failed


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


def _fault(one: Any, frame: Frame) -> str | None:
    """What is wrong with one expectation's result, None where it looked at every row it names and all was well."""
    config, result = one.expectation_config, one.result or {}
    kwargs = {k: v for k, v in config.kwargs.items() if k != "batch_id"}
    said = f"{config.type}({', '.join(f'{k}={str(v)[:60]}' for k, v in kwargs.items())})"
    if one.success is not True:
        return f"{said}{_seen(result) if result else ' could not be computed'}"
    if config.type == "expect_column_to_exist":
        return None
    if result.get("element_count") == 0:
        return f"{said} looked at no row"
    if "element_count" not in result and ("observed_value" not in result or kwargs.get("row_condition")):
        return f"{said} does not say what it looked at"
    nulls = 0 if config.type in SEES_NULLS else _nulls(frame, kwargs)
    return f"{said} skipped {nulls} rows with nulls" if nulls else None


def _nulls(frame: Frame, kwargs: dict[str, Any]) -> int:
    """Rows with a null in a column that an expectation looks at."""
    named = [kwargs.get("column"), kwargs.get("column_A"), kwargs.get("column_B"), *(kwargs.get("column_list") or ())]
    return int(frame.data[[name for name in named if name]].isna().any(axis=1).sum())


def _seen(result: dict[str, Any]) -> str:
    if "element_count" in result and "unexpected_count" in result:
        first = str(result.get("partial_unexpected_list", [])[:1])[:200]
        return f" fails for {result['unexpected_count']} of {result['element_count']} rows, first {first}"
    return f" fails, observed {str(result.get('observed_value', result))[:200]}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
