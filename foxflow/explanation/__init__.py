"""Why two records part: every root of a comparison in the dataflow unrolled over steps and iterations."""

from foxflow.explanation.explaining import explain
from foxflow.explanation.text import as_json, as_text

__all__ = ["as_json", "as_text", "explain"]
