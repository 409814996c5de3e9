"""One config in several cells, each a real process: equal, or named by its first buffer, or not run and said so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli.commanding import ROOT, fresh

from foxflow import flow
from foxflow.errors import Mistake
from foxflow.experiments.invariance import SIMD_FLAGS, as_json, as_text, invariance, matrix, overall

TINY = ("--preset", "tiny", "--steps", "3", "--eval-steps", "1")


def quiet(line: str) -> None:
    assert line


def test_cells_of_other_threads_and_simd_levels_have_one_fingerprint(tmp_path: Path) -> None:
    code, out, err = fresh(tmp_path, "invariance", *TINY, "--threads", "1,2", "--simd", "plain", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert (said["verdict"], {cell["verdict"] for cell in said["cells"]}) == ("EQUAL", {"EQUAL"})
    assert [(c["device"], c["threads"], c["simd"]) for c in said["cells"]] == [("cpu", 1, "plain"), ("cpu", 2, "plain")]
    (fingerprint,) = {cell["fingerprint"] for cell in said["cells"]}
    assert fingerprint.startswith("fx1:")
    for cell in said["cells"]:
        environment = json.loads((tmp_path / cell["record"] / "manifest.json").read_text())["environment"]
        assert environment["threads"] == cell["threads"]
        assert environment["variables"]["FOXFLOW_SIMD"] == cell["simd"]
        assert environment["torch"] == cell["torch"]


def interpreter(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_cell_that_differs_is_named_with_its_first_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second cell is another interpreter's, which finds foxflow on its own path."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    other = interpreter(tmp_path / "other", f'exec {sys.executable} "$@"')
    cells = matrix([other], ["cpu"], [1], ["plain"])
    ran = invariance(cells, 42, [*TINY, "--specimen", "unseeded_outcome"], tmp_path, quiet)
    assert [(one.cell.python, one.verdict) for one in ran] == [(sys.executable, flow.EQUAL), (other, flow.DIVERGED)]
    assert ran[0].fingerprint != ran[1].fingerprint
    assert overall(ran) == flow.DIVERGED
    assert "DIVERGED from step 0, buffer outcome_w" in as_text(ran)
    assert as_json(ran)["cells"][1]["first"] == {"step": 0, "k": None, "group": "K", "buffer": "outcome_w"}


def test_cells_that_could_not_run_are_never_equal_and_say_why(tmp_path: Path) -> None:
    """No device (hidden here), and an interpreter that dies: one cell that ran has nothing to be equal to."""
    dies = interpreter(tmp_path / "dies", "echo no such module >&2; exit 7")
    words = ("--threads", "1", "--simd", "plain", "--device", "cpu,cuda", "--python", dies)
    code, out, _ = fresh(tmp_path, "invariance", *TINY, *words, CUDA_VISIBLE_DEVICES="")
    assert code == 3
    ran, no_device, *died = out.splitlines()[1:-1]
    assert ran.endswith("EQUAL")
    assert "INCOMPLETE: --device cuda must find a CUDA device, got none." in no_device
    assert len(died) == 2
    assert all("exit code 7: no such module" in line for line in died)
    assert out.splitlines()[-1] == "INCOMPLETE: 1 EQUAL, 3 INCOMPLETE of 4 cells"


def test_a_run_without_digests_is_equal_to_nothing(tmp_path: Path) -> None:
    cells = matrix((), ["cpu"], [1], ["plain"])
    ran = invariance(cells, 42, [*TINY, "--record", "none"], tmp_path, quiet)
    assert [one.reason for one in ran] == ["nothing was digested, so there is no fingerprint"]
    assert overall(ran) == flow.INCOMPLETE


def test_a_mistake_in_the_options_of_the_run_is_the_caller_s(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="--dump-steps must be FIRST:END"):
        invariance(matrix((), ["cpu"], [1], ["plain"]), 42, [*TINY, "--dump-steps", "4"], tmp_path, quiet)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (((), ["tpu"], [1], ["plain"]), "--device must be cpu or cuda, joined by commas, got 'tpu'."),
        (((), ["cpu"], [1], ["sse"]), "--simd must be plain or avx2 or avx512, joined by commas, got 'sse'."),
        ((["nowhere"], ["cpu"], [1], ["plain"]), "--python must name an interpreter, got 'nowhere'."),
    ],
)
def test_a_word_that_names_no_cell_is_refused(
    words: tuple[list[str], list[str], list[int], list[str]], says: str
) -> None:
    with pytest.raises(Mistake) as mistake:
        matrix(*words)
    assert str(mistake.value).startswith(says)


def test_a_simd_level_that_the_processor_lacks_does_not_run_as_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled module would quietly take a lower one."""
    monkeypatch.setitem(SIMD_FLAGS, "avx512", ("no-such-flag",))
    ran = invariance(matrix((), ["cpu"], [1], ["avx512"]), 42, TINY, tmp_path, quiet)
    assert [(one.verdict, one.reason) for one in ran] == [(flow.INCOMPLETE, "this processor has no avx512")]
    assert not (tmp_path / "mlruns").exists()


def test_threads_that_are_no_number_are_refused(tmp_path: Path) -> None:
    code, _, err = fresh(tmp_path, "invariance", "--threads", "1,many")
    assert (code, err.strip()) == (
        2,
        "foxflow: --threads must be numbers from 1 to 1024, joined by commas, got 'many'.",
    )
