"""What Great Expectations can't say itself: that two buffers hold the same bits. Importing this registers it there.

Its own comparisons take -0.0 for 0.0, tell a NaN from itself, and print whole arrays where these differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation, render_suite_parameter_string
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render import LegacyRendererType, RenderedStringTemplateContent, RenderedTableContent
from great_expectations.render.renderer.renderer import renderer

if TYPE_CHECKING:
    import pandas as pd

METRIC, SHOWN = "table.buffers_not_bit_equal", 20
RULE = "the same dtype, the same shape and the same bits: −0.0 is not 0.0, a NaN equals only a NaN of the same payload."


class BuffersNotBitEqual(TableMetricProvider):  # type: ignore[misc]
    """Of a data frame: how many rows it has, how many of them differ, and of the first few, how."""

    metric_name = METRIC
    value_keys = ("column_A", "column_B", "place")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(  # type: ignore[no-untyped-def]
        cls,  # noqa: N805 (Great Expectations makes it a class method)
        execution_engine,
        metric_domain_kwargs,
        metric_value_kwargs,
        **_: object,
    ) -> dict[str, Any]:
        data, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)
        column_A, column_B, place = (metric_value_kwargs[key] for key in cls.value_keys)
        found = [difference(a, b) for a, b in zip(data[column_A], data[column_B], strict=True)]
        unequal = [row for row, how in enumerate(found) if how]
        shown = [[_place(data, row, place), str(found[row])] for row in unequal[:SHOWN]]
        return {"rows": len(found), "unequal": len(unequal), "shown": shown}


class ExpectBuffersToBeBitEqual(BatchExpectation):  # type: ignore[misc]
    """Expect the two buffers of every row to be bit-equal: the same dtype, shape and bytes.

    A cell is an array or a number; a row where either side has none is a row that differs, and no row is skipped.

    Args:
        column_A: column of the one side's buffers.
        column_B: column of the other side's.
        place: columns that say which buffer a row is; without them rows are numbered.

    Supported data sources: pandas.
    """

    column_A: str
    column_B: str
    place: list[str] = []  # noqa: RUF012 (a pydantic field, copied for each instance)
    description: str | None = f"Both sides of every buffer must have {RULE}"

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = ("column_A", "column_B", "place")
    args_keys: ClassVar[tuple[str, ...]] = ("column_A", "column_B")

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: object = None, execution_engine: object = None
    ) -> dict[str, Any]:
        found = metrics[METRIC]
        rows, unequal = found["rows"], found["unequal"]
        result = {
            "element_count": rows,
            "unexpected_count": unequal,
            "unexpected_percent": 100 * unequal / rows if rows else None,
            "partial_unexpected_list": found["shown"],
        }
        return {"success": rows > 0 and not unequal, "result": result}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any]:
        """The sentence of the suite's page and of each result's."""
        kwargs = (configuration or result.expectation_config).kwargs
        template = {
            "template": f"Buffers $column_A and $column_B must have {RULE}",
            "params": {key: kwargs[key] for key in cls.args_keys},
            "styling": (runtime_configuration or {}).get("styling"),
        }
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]

    @classmethod
    @renderer(renderer_type="renderer.diagnostic.unexpected_table")
    def _diagnostic_unexpected_table_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any] | None:
        """The offending buffers, one a line."""
        shown = result.result.get("partial_unexpected_list") if result and result.result else None
        if not shown:
            return None
        header = ["Buffer", "How it differs"]
        table = [[_text(cell) for cell in row] for row in shown]
        styling = {"body": {"classes": ["table-bordered", "table-sm", "mt-3"]}}
        return [RenderedTableContent(content_block_type="table", header_row=header, table=table, styling=styling)]


def difference(a: object, b: object) -> str | None:
    """How two buffers differ, in words; None where they are bit-equal.

    Args:
        a: an array or a number; None where this side has no buffer.
        b: the other side's.
    """
    if a is None or b is None:
        sides = [side for side, buffer in (("A", a), ("B", b)) if buffer is None]
        return f"missing in {' and '.join(sides)}"
    one, other = np.asarray(a), np.asarray(b)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{one.dtype} {list(one.shape)} in A, {other.dtype} {list(other.shape)} in B"
    if one.tobytes() == other.tobytes():
        return None
    at = np.flatnonzero((_bytes(one) != _bytes(other)).any(axis=1))
    first = [int(i) for i in np.unravel_index(int(at[0]), one.shape)]
    values = [_element(side, int(at[0])) for side in (one, other)]
    of = f"{at.size} of {one.size} elements differ, the first at {first}: " if one.ndim else ""
    return f"{of}{values[0]} in A, {values[1]} in B"


def _text(cell: str) -> Any:
    """Text as a parameter of a template, which alone Great Expectations escapes."""
    template = {"template": "$text", "params": {"text": cell}}
    return RenderedStringTemplateContent(content_block_type="string_template", string_template=template)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """uint8[elements, bytes an element]."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.itemsize)


def _element(array: np.ndarray[Any, Any], at: int) -> str:
    """An element as it prints, and its bits in hex from the highest; of a dtype that numpy lacks, the bits alone."""
    one = array.reshape(-1)[at]
    bits = f"0x{one.tobytes()[::-1].hex()}"
    return bits if array.dtype.kind == "V" else f"{one} ({bits})"


def _place(data: pd.DataFrame, row: int, names: list[str]) -> str:
    return ", ".join(f"{name} {data[name].iloc[row]}" for name in names) or f"row {row}"
