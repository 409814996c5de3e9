"""Recomputes buffers in a process of its own: `python -m foxflow.experiments.proof.worker JOB.json`.

The job states record, device, threads and which places to recompute from which bytes; the answer goes to
JOB.result.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foxflow import digest
from foxflow.capture import DTYPES, host_bytes
from foxflow.determinism import settings
from foxflow.errors import CorruptRecord, Mistake
from foxflow.experiments.proof.places import PHASES, Place, dumped
from foxflow.record import open_record
from foxflow.train import kernels

TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def work(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Recompute a job's places in order; each takes the place of its dumped bytes for those after it.

    Args:
        job: JSON values: `record` whose manifest sets the scene, `device`, `threads`, `fill` (torch fills memory that
            nobody wrote), `repeats`, `values` as (place, record that holds its bytes, their digest), and `tasks` as
            place and inputs.

    Returns:
        For each task its place, the digest of every repetition, how many elements of each are NaN or Inf, and why it
        could not be done, if so.

    Raises:
        CorruptRecord: bytes do not have the digest that their record states.
    """
    settings.fix(job["threads"])
    torch.utils.deterministic.fill_uninitialized_memory = bool(job["fill"])  # type: ignore[attr-defined]
    device = torch.device(job["device"])
    manifest = json.loads(open_record(job["record"]).manifest)
    settings_of = {phase: kernels.setting_of(manifest, device, phase) for phase in PHASES}
    values = _values(job["values"], device)
    return [_recomputed(settings_of, task, values, int(job["repeats"])) for task in job["tasks"]]


def _values(sources: list[list[Any]], device: torch.device) -> dict[Place, Tensor]:
    by_record: dict[str, dict[Place, str]] = {}
    for place, record, stated in sources:
        by_record.setdefault(record, {})[Place(*place)] = stated
    found: dict[Place, Tensor] = {}
    for record, places in by_record.items():
        for place, dtype, shape, data in dumped(open_record(record), places):
            if digest.digest(data, dtype, shape) != places[place]:
                raise CorruptRecord(record, str(place), "its bytes do not have its digest")
            found[place] = _tensor(data, dtype, shape).to(device)
    return found


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    if not data.size:
        return torch.empty(shape, dtype=TORCH_DTYPES[dtype])
    return torch.frombuffer(bytearray(data), dtype=TORCH_DTYPES[dtype]).reshape(shape)


@torch.inference_mode()
def _recomputed(
    settings_of: Mapping[str, kernels.Setting], task: dict[str, Any], values: dict[Place, Tensor], repeats: int
) -> dict[str, Any]:
    place = Place(*task["place"])
    digests, nonfinite = [], []
    try:
        for _ in range(repeats):
            inputs = {key: values[Place(*source)] for key, source in task["inputs"]}
            made = kernels.replay(settings_of[place.phase], place.buffer, place.step, place.k, inputs)
            digests.append(digest.digest(host_bytes(made), DTYPES[made.dtype], tuple(made.shape)))
            nonfinite.append(int((~torch.isfinite(made)).sum()) if made.dtype.is_floating_point else 0)
            values[place] = made
    except Mistake as mistake:
        return {"place": place, "digests": digests, "nonfinite": nonfinite, "why": str(mistake)}
    return {"place": place, "digests": digests, "nonfinite": nonfinite, "why": None}


def main(path: str) -> None:
    """Do the job in a file."""
    done = work(json.loads(Path(path).read_text()))
    Path(path).with_suffix(".result.json").write_text(json.dumps(done, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
