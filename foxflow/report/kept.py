"""A proof read back from the folder in which `prove` kept it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foxflow import flow
from foxflow.errors import must

FILE = "proof.json"


def read_proof(folder: str | Path, explanation: flow.Explanation) -> flow.Proof:
    """Read what the experiments on two runs came to.

    Args:
        folder: that `foxflow prove` wrote.
        explanation: of the same two runs, in the same order.

    Raises:
        Mistake: the folder holds no proof, or that of other runs.
    """
    path, found = Path(folder) / FILE, explanation.comparison
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        runs, accused = (kept["a"], kept["b"]), kept["accused"]
        proof = flow.Proof(
            explanation=explanation,
            accused=None if accused is None else _root(accused),
            proven=kept["proven"] is True,
            experiments=tuple(_experiment(experiment) for experiment in kept["experiments"]),
            folder=str(folder),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__} {error}"
        raise must("--proof", f"be a folder with a {FILE} of 'foxflow prove'", said) from error
    if runs != (found.a, found.b):
        raise must("--proof", f"be of {found.a} and {found.b}", f"that of {runs[0]} and {runs[1]}")
    return proof


def _root(kept: dict[str, Any]) -> flow.Root:
    """The accused, with lists back as tuples, so that it equals the root that it was."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    fields["where"] = flow.Where(**kept["where"])
    return flow.Root(**fields)


def _experiment(kept: dict[str, Any]) -> flow.Experiment:
    fields: dict[str, Any] = {**kept, "repeats": int(kept["repeats"]), "reproduced": kept["reproduced"] is True}
    return flow.Experiment(**fields)
