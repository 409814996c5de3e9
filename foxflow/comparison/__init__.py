"""Two records, buffer by buffer, byte by byte: where they part, by how much, and the verdict."""

from foxflow.comparison.text import as_json, as_table, first_as_json
from foxflow.comparison.verdict import compare

__all__ = ["as_json", "as_table", "compare", "first_as_json"]
