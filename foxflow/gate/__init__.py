"""The gate: Great Expectations says in CI whether two runs are the same run. Nothing else in foxflow knows it."""

from foxflow.gate.judgement import as_json, judge

__all__ = ["as_json", "judge"]
