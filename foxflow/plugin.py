"""What MLflow asks when any run starts (entry point `mlflow.run_context_provider`); foxflow itself never imports it."""

from __future__ import annotations

from pathlib import Path

from mlflow.tracking.context.abstract_context import RunContextProvider

from foxflow import provenance


class RunContext(RunContextProvider):  # type: ignore[misc]
    """Tags each run with the git state of the folder it starts in and with the machine."""

    def in_context(self) -> bool:
        """Everywhere."""
        return True

    def tags(self) -> dict[str, str]:
        """`foxflow.git`, `.git_dirty`, `.device`, `.driver`, `.cuda`, `.torch`, `.simd`, `.threads`, where known."""
        found = provenance.machine()
        state = provenance.checkout(Path.cwd())
        if state:
            found |= {"git": state[0], "git_dirty": state[1] or "clean"}
        return {f"foxflow.{name}": value for name, value in found.items()}
