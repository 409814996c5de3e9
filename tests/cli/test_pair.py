"""One seed run twice by the command line, with a real store; and doctored twins, none of which passes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cli.commanding import Command, Said, fresh, here
from comparison.doctoring import edited, redigested
from record.making import rewrite

DUMP, DIGESTS, MANIFEST = "buffers/step-000002.parquet", "digests.parquet", "manifest.json"
BUFFER = "grad_h_t_outcome"
Doctor = Callable[[Path], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module")
def checked(folder: Path) -> Said:
    """Two tiny runs of seed 42 in fresh processes, compared and gated."""
    return fresh(folder, "check", "--seeds", "42", "--preset", "tiny", "--json")


@pytest.fixture(scope="module")
def records(folder: Path, checked: Said) -> tuple[Path, Path]:
    (seed,) = json.loads(checked[1])["seeds"]
    a, b = (folder / "mlruns" / "foxflow" / seed[run] / "artifacts" / "record" for run in ("run_a", "run_b"))
    return a, b


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda *words: here(capsys, *words)


def test_a_seed_run_twice_is_the_same_run_and_passes_the_gate(checked: Said, folder: Path) -> None:
    code, out, err = checked
    found = json.loads(out)
    (seed,) = found["seeds"]
    assert (code, found["verdict"]) == (0, "EQUAL")
    assert (seed["seed"], seed["verdict"], seed["gate"]) == (42, "EQUAL", "PASS")
    assert seed["run_a"] != seed["run_b"]
    assert seed["fingerprint"].startswith("fx1:")
    assert "gate PASS" in err
    assert (folder / "mlruns" / "mlflow.db").is_file()


def test_both_runs_of_a_check_have_its_report_and_its_picture_in_mlflow(records: tuple[Path, Path]) -> None:
    pages = [(record.parent / "report.html").read_text(encoding="utf-8") for record in records]
    assert pages[0] == pages[1]
    assert "Gate: PASS" in pages[0]
    assert all((record.parent / "divergence.png").read_bytes().startswith(b"\x89PNG") for record in records)


def test_both_runs_of_a_check_have_the_gate_s_data_docs_in_mlflow(records: tuple[Path, Path]) -> None:
    for record in records:
        index = (record.parent / "gate" / "index.html").read_text(encoding="utf-8")
        assert "The same run: " in index
        shown = {path.name for path in (record.parent / "gate" / "validations").iterdir()}
        assert shown == {"record", "comparison", "environment", "buffers"}


def test_compare_by_run_id_says_the_same_and_lists_every_step(
    command: Command, checked: Said, records: tuple[Path, Path]
) -> None:
    (seed,) = json.loads(checked[1])["seeds"]
    code, out, err = command("compare", seed["run_a"], seed["run_b"][:12], "--json")
    found = json.loads(out)
    assert (code, err, found["verdict"], found["first"], found["differing"]) == (0, "", "EQUAL", None, 0)
    assert found["compared"] == pq.read_metadata(records[0] / DIGESTS).num_rows
    assert len(found["steps"]) == 12 + 4 + 1
    assert {group["group"] for group in found["steps"][0]["groups"]} == set("ABCDEFGHIJKLMORWX")


def test_both_records_are_sound_and_one_byte_more_is_not(
    command: Command, records: tuple[Path, Path], tmp_path: Path
) -> None:
    for record in records:
        assert command("verify", str(record), "--json")[0] == 0
    shutil.copytree(records[0], tmp_path / "c")
    with (tmp_path / "c" / "diag.jsonl").open("ab") as diag:
        diag.write(b"\n")
    code, out, _ = command("verify", str(tmp_path / "c"), "--json")
    assert code == 3
    assert [fault.split(":")[0] for fault in json.loads(out)["faults"]] == ["diag.jsonl"]


def test_a_record_may_lie_anywhere(command: Command, records: tuple[Path, Path], tmp_path: Path) -> None:
    """The twin of the doctored pairs below: copying alone changes no verdict."""
    shutil.copytree(records[1], tmp_path / "b")
    assert command("compare", str(records[0]), str(tmp_path / "b"))[0] == 0
    assert command("gate", str(records[0]), str(tmp_path / "b"))[0] == 0


def flipped(table: pa.Table) -> pa.Table:
    """One bit of one dumped buffer."""
    at = table["buffer"].to_pylist().index(BUFFER)

    def one_bit(values: list[Any]) -> None:
        values[at] = values[at][:8] + bytes([values[at][8] ^ 1]) + values[at][9:]

    return edited(table, "data", one_bit)


def flip(record: Path) -> None:
    rewrite(record / DUMP, flipped)


def flip_and_redigest(record: Path) -> None:
    """In every place that holds the digest, so that the record agrees with itself."""
    rewrite(record / DUMP, lambda table: redigested(flipped(table)))
    dump = pq.read_table(record / DUMP)
    new = dump["digest"][dump["buffer"].to_pylist().index(BUFFER)].as_py()

    def changed(table: pa.Table) -> pa.Table:
        places = zip(table["step"].to_pylist(), table["buffer"].to_pylist(), table["k"].to_pylist(), strict=True)
        at = list(places).index((2, BUFFER, 1))
        return edited(table, "digest", lambda values: values.__setitem__(at, new))

    rewrite(record / DIGESTS, changed)


def delete_row(record: Path) -> None:
    rewrite(record / DIGESTS, lambda table: pa.concat_tables([table[:100], table[101:]]))


def drop_step(record: Path) -> None:
    rewrite(record / DIGESTS, lambda table: table.filter(pc.not_equal(table["step"], 5)))


def drop_dumped_step(record: Path) -> None:
    (record / DUMP).unlink()


def drop_evaluation(record: Path) -> None:
    rewrite(record / DIGESTS, lambda table: table.filter(pc.not_equal(table["phase"].cast("string"), "eval")))


def empty(record: Path) -> None:
    rewrite(record / DIGESTS, lambda table: table[:0])


def swap_two_digests(record: Path) -> None:
    def swapped(values: list[Any]) -> None:
        values[50], values[51] = values[51], values[50]

    rewrite(record / DIGESTS, lambda table: edited(table, "digest", swapped))


def restate(**changes: Any) -> Doctor:
    """The manifest with other words in it."""

    def doctor(record: Path) -> None:
        said = json.loads((record / MANIFEST).read_bytes())
        (record / MANIFEST).write_text(json.dumps(said | changes))

    return doctor


DOCTORED: dict[str, tuple[Doctor, int, str]] = {
    "a bit flipped in a dump": (flip, 3, "NOT_COMPARABLE"),
    "a bit flipped in a dump and every digest made to fit": (flip_and_redigest, 1, "DIVERGED"),
    "a row deleted": (delete_row, 3, "INCOMPLETE"),
    "a step dropped": (drop_step, 3, "INCOMPLETE"),
    "a dumped step dropped": (drop_dumped_step, 3, "NOT_COMPARABLE"),
    "the evaluation dropped": (drop_evaluation, 3, "INCOMPLETE"),
    "no row left": (empty, 3, "INCOMPLETE"),
    "two digests swapped": (swap_two_digests, 1, "DIVERGED"),
    "another seed stated": (restate(seed=43), 3, "NOT_COMPARABLE"),
    "no longer complete": (restate(complete=False), 3, "INCOMPLETE"),
}


@pytest.mark.parametrize("fault", DOCTORED)
@pytest.mark.parametrize("verb", ["compare", "gate"])
def test_a_doctored_twin_never_passes(
    command: Command, records: tuple[Path, Path], tmp_path: Path, verb: str, fault: str
) -> None:
    doctor, code, verdict = DOCTORED[fault]
    shutil.copytree(records[1], tmp_path / "b")
    doctor(tmp_path / "b")
    said = command(verb, str(records[0]), str(tmp_path / "b"), "--json")
    wanted = (code, verdict) if verb == "compare" else (1, "FAIL")
    assert (said[0], json.loads(said[1])["verdict"]) == wanted


def test_two_records_doctored_alike_do_not_pass_the_gate_either(
    command: Command, records: tuple[Path, Path], tmp_path: Path
) -> None:
    """Nothing differs between them; their own seals and counts tell."""
    for doctor in (delete_row, empty, flip):
        sides = [str(tmp_path / f"{doctor.__name__}-{record.parts[-3]}") for record in records]
        for record, side in zip(records, sides, strict=True):
            shutil.copytree(record, side)
            doctor(Path(side))
        assert command("gate", *sides, "--json")[0] == 1


def test_the_flipped_bit_is_named(command: Command, records: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(records[1], tmp_path / "b")
    flip_and_redigest(tmp_path / "b")
    found = json.loads(command("compare", str(records[0]), str(tmp_path / "b"), "--json")[1])
    assert found["first"] == {"step": 2, "k": 1, "group": "J", "buffer": BUFFER}
    (buffer,) = [b for step in found["steps"] for group in step["groups"] for b in group["buffers"]]
    assert (buffer["differing"], buffer["first_index"]) == (1, [0, 2])


@pytest.mark.parametrize("verb", ["compare", "gate"])
def test_a_missing_partner_is_a_mistake_of_the_caller(
    command: Command, records: tuple[Path, Path], tmp_path: Path, verb: str
) -> None:
    for partner in ("nobody", str(tmp_path)):
        code, out, err = command(verb, str(records[0]), partner, "--json")
        assert (code, out, err.count("\n")) == (2, "", 1)
