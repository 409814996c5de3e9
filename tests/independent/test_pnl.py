"""Trades and money of whole runs, counted again from their dumps by the script beside this file."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pnl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from dumps import DTYPES, Run, read

HERE = Path(__file__).resolve().parent
ES = "dbn/esh4_20231225_mbp-10_from_mbo.dbn.zst"
GOOG = "lobster/GOOG_2012-06-21_34200000_57600000_orderbook_10.csv"
WRAPPING_SEED = 9
"""An environment reaches its segment's last row at step 17, and another one at the 9th step of evaluation."""


def tiny_run(folder: Path, seed: int, data: str) -> Path:
    """Train 40 steps and evaluate 20 with every byte dumped; the record's folder."""
    options = "run --preset tiny --steps 40 --eval-steps 20 --dump all --dump-steps 0:60 --track none --run-name whole"
    command = [sys.executable, "-m", "foxflow", *options.split(), "--seed", str(seed), "--data", data]
    done = subprocess.run([*command, "--threads", "1", "--device", "cpu"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "mlruns/records/whole"


def count(*records: Path) -> tuple[int, str]:
    """Exit code and text of the script."""
    command = [sys.executable, str(HERE / "pnl.py"), *map(str, records)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def differing(text: str) -> list[str]:
    return [line[:26].strip() for line in text.splitlines() if line.endswith("DIFFERS")]


def rewrite(path: Path, change: Callable[[str, Any], Any]) -> None:
    """Pass each integer buffer of a dump through `change`; None leaves it out."""
    table = pq.read_table(path)
    data, keep = table["data"].to_pylist(), []
    for i, row in enumerate(table.select(["buffer", "dtype", "shape"]).to_pylist()):
        keep.append(True)
        if row["dtype"] in ("i32", "i64"):
            values = np.frombuffer(data[i], DTYPES[row["dtype"]]).reshape(json.loads(row["shape"])).copy()
            changed = change(row["buffer"], values)
            keep[i], data[i] = changed is not None, b"" if changed is None else changed.tobytes()
    at = table.schema.get_field_index("data")
    pq.write_table(table.set_column(at, "data", pa.array(data, pa.large_binary())).filter(pa.array(keep)), path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_run(tmp_path_factory.mktemp("pnl"), WRAPPING_SEED, "synthetic")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def has_met_everything(run: Run) -> bool:
    """Every action was played, and the end of a segment closed a position."""
    steps = [step for phase in run.steps.values() for step in phase]
    actions = {int(a) for step in run.steps["train"] for a in step["action"]}
    return actions == set(range(9)) and any((step["wrap"] & step["done"]).any() for step in steps)


def test_trades_and_money_of_a_run_are_those_counted_from_its_dumps(whole: Path) -> None:
    code, text = count(whole)
    assert code == 0, text
    run = read(whole, None)
    assert has_met_everything(run)
    assert len(pnl.replay(run, "train").trades) > 8
    assert pnl.replay(run, "eval").trades


@pytest.mark.slow
@pytest.mark.parametrize("file", [ES, GOOG])
def test_trades_and_money_on_a_real_market_are_those_counted_from_the_dumps(
    file: str, shared_data: Path, tmp_path: Path
) -> None:
    record = tiny_run(tmp_path, 42, str(shared_data / file))
    code, text = count(record)
    assert code == 0, text
    run = read(record, None)
    assert len(pnl.replay(run, "train").trades) > 8
    assert pnl.replay(run, "eval").trades


def test_one_fill_a_tick_dearer_is_found_to_the_cent(copy: Path) -> None:
    bought_at = int(read(copy, None).steps["train"][2]["lob_cursor"][0])
    before = count(copy)[1].split("train total_pnl_usd")[1].split()

    def dearer(rows: Any) -> Callable[[str, Any], Any]:
        def change(name: str, values: Any) -> Any:
            if name in ("lob_book", "tape_book"):
                values[(rows if name == "lob_book" else np.arange(len(values))) == bought_at, values.shape[1] // 2] += 1
            return values

        return change

    held = read(copy, None).steps
    for phase, stem, first in (("train", "step", 0), ("eval", "eval", 40)):
        for t, step in enumerate(held[phase], first):
            rewrite(copy / f"buffers/{stem}-{t:06d}.parquet", dearer(step["lob_cursor"]))
    code, text = count(copy)
    assert (code, differing(text)) == (1, ["train total_pnl_usd"])
    after = text.split("train total_pnl_usd")[1].split()
    assert float(before[0]) - float(after[0]) == 12.5
    assert "train step 2, environment 0: row, done, wrap, pnl_e4" in text


def test_one_order_never_sent_changes_the_number_of_trades(copy: Path) -> None:
    def hold(name: str, values: Any) -> Any:
        if name == "action":
            values[0] = 0
        return values

    rewrite(copy / "buffers/step-000000.parquet", hold)
    code, text = count(copy)
    assert code == 1
    assert "train n_done" in differing(text)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("alpha_rl_train_summary.json", "total_pnl_usd"),
        ("alpha_rl_train_summary.json", "n_done"),
        ("eval_summary.json", "n_trades"),
        ("eval_summary.json", "total_pnl_usd"),
        ("eval_summary.json", "win_rate"),
        ("eval_summary.json", "profit_factor"),
        ("eval_summary.json", "max_drawdown_usd"),
    ],
)
def test_a_summary_a_cent_or_a_trade_off_is_found(copy: Path, file: str, field: str) -> None:
    values = json.loads((copy / file).read_text())
    values[field] += 0.01 if isinstance(values[field], float) else 1
    (copy / file).write_text(json.dumps(values))
    code, text = count(copy)
    assert code == 1
    assert [name.split()[1] for name in differing(text)] == [field]


def test_a_book_that_another_dump_contradicts_is_found(copy: Path) -> None:
    def dearer(name: str, values: Any) -> Any:
        if name == "lob_book":
            values[:, values.shape[1] // 2] += 1
        return values

    rewrite(copy / "buffers/step-000005.parquet", dearer)
    code, text = count(copy)
    assert code == 1
    assert "8 books differ from another book of their row" in text


def test_the_tape_may_come_from_another_record_of_the_same_market(copy: Path, whole: Path) -> None:
    rewrite(copy / "buffers/step-000000.parquet", lambda name, values: None if name == "tape_book" else values)
    code, text = count(copy)
    assert code == 2
    assert "stands in no dumped book" in text
    assert count(copy, whole)[0] == 0


def test_the_tape_of_another_market_is_refused(copy: Path, whole: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    digests = pq.read_table(other / "digests.parquet")
    at = digests.schema.get_field_index("digest")
    pq.write_table(digests.set_column(at, "digest", pc.utf8_reverse(digests["digest"])), other / "digests.parquet")
    code, text = count(copy, other)
    assert code == 2
    assert "other is of another tape" in text


def test_a_step_without_a_dump_is_no_agreement(copy: Path) -> None:
    (copy / "buffers/eval-000050.parquet").unlink()
    code, text = count(copy)
    assert code == 2
    assert "eval-000050.parquet isn't there" in text


def test_the_count_imports_nothing_of_foxflow() -> None:
    met = set()
    for name in ("pnl.py", "dumps.py"):
        for node in ast.walk(ast.parse((HERE / name).read_text())):
            if isinstance(node, ast.Import):
                met |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                met.add(str(node.module).split(".")[0])
    assert met == {
        "__future__",
        "json",
        "sys",
        "dataclasses",
        "decimal",
        "pathlib",
        "typing",
        "numpy",
        "pyarrow",
        "dumps",
    }
