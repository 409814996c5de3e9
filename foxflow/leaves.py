"""JSON leaf by leaf: what two files are compared by."""

from __future__ import annotations

from collections.abc import Iterator


def leaves(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf with its dotted name, in order; an empty map or list is a leaf.

    Args:
        value: parsed JSON.
        at: name of the value itself.
    """
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from leaves(below, f"{at}[{index}]")
    else:
        yield at, value
