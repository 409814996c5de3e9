"""Wrong use is one line on stderr, exit code 2 and nothing left behind; a defect is exit code 4."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from bits import fresh_process
from cli.commanding import ROOT, Command, Said, fresh

from foxflow import __version__

TINY = ("run", "--seed", "42", "--preset", "tiny")


def refused(said: Said) -> str:
    """The line that a mistake of the caller is told by."""
    code, out, err = said
    assert (code, out) == (2, "")
    assert err.startswith("foxflow: ")
    assert err.count("\n") == 1
    return err.removeprefix("foxflow: ").rstrip("\n")


WRONG = [
    ((), "foxflow must be given a command, got none. See 'foxflow --help'."),
    (("frobnicate",), "No such command 'frobnicate'"),
    (("run",), "Missing option '--seed'"),
    (("run", "--seed", "forty"), "--seed must be a whole number, got 'forty'."),
    (("run", "--seed", "-1"), "--seed must be between 0 and 2^64 - 1, got -1."),
    (("run", "--seed", str(2**64)), f"--seed must be between 0 and 2^64 - 1, got {2**64}."),
    ((*TINY, "--bogus"), "No such option: --bogus"),
    ((*TINY, "--steps", "0"), "--steps must be 1 to 1000000, got 0."),
    ((*TINY, "--steps", "-3"), "--steps must be 1 to 1000000, got -3."),
    ((*TINY, "--steps", "99999999999"), "--steps must be 1 to 1000000, got 99999999999."),
    ((*TINY, "--steps", "many"), "Invalid value for '--steps'"),
    ((*TINY, "--eval-steps", "-1"), "--eval-steps must be 0 to 1000000, got -1."),
    (("run", "--seed", "42", "--preset", "huge"), "--preset must be default or tiny, got 'huge'."),
    ((*TINY, "--levels", "0"), "--levels must be 1 to 64, got 0."),
    ((*TINY, "--threads", "0"), "--threads must be 1 to 1024, got 0."),
    ((*TINY, "--device", "tpu"), "--device must be auto or cpu or cuda, got 'tpu'."),
    ((*TINY, "--dump", "per,forward"), "--dump must be per, mamba2, rl, backward, all or none, got 'forward'."),
    ((*TINY, "--dump", "per,all"), "--dump must use all and none alone, got 'per,all'."),
    ((*TINY, "--dump", ""), "--dump must be per, mamba2, rl, backward, all or none, got ''."),
    ((*TINY, "--dump-steps", "4:4"), "--dump-steps must be FIRST:END with FIRST < END, got '4:4'."),
    ((*TINY, "--dump-steps", "²:4"), "--dump-steps must be FIRST:END with FIRST < END, got '²:4'."),
    ((*TINY, "--record", "some"), "--record must be all or light or none, got 'some'."),
    ((*TINY, "--track", "maybe"), "--track must be on or none, got 'maybe'."),
    ((*TINY, "--verify-every", "-1"), "--verify-every must be 0 to 1000000, got -1."),
    ((*TINY, "--gemm", "mkl"), "--gemm must be own or cublas, got 'mkl'."),
    ((*TINY, "--gemm", "cublas", "--device", "cpu"), "--gemm cublas must run on a GPU, got --device cpu."),
    ((*TINY, "--run-name", "../up"), "--run-name must be a name without '/', got '../up'."),
    ((*TINY, "--run-name", " "), "--run-name must be a name without '/', got ' '."),
    ((*TINY, "--stop-at", "13"), "--stop-at must be 1 to 12 (--steps), got 13."),
    ((*TINY, "--stop-at", "0"), "--stop-at must be 1 to 12 (--steps), got 0."),
    ((*TINY, "--data", "nowhere.dbn"), "--data must name a file, got no such file: nowhere.dbn."),
    ((*TINY, "--data", "/"), "--data must name a file, got the folder /."),
    ((*TINY, "--data", "synthetic:wild"), "--data must be synthetic, synthetic:reverting or a file"),
    (("check", "--seeds", "42,42"), "--seeds must name each seed once, got '42,42'."),
    (("check", "--seeds", "5:5"), "--seeds must name at least one seed, got '5:5'."),
    (("check", "--seeds", "0:99999999999999"), "--seeds must name at most 100000 seeds, got '0:99999999999999'."),
    (("check", "--seeds", "42", "--seed", "7"), "foxflow check must take its seeds from --seeds, got --seed."),
    (("check", "--seeds", "42", "--seed=7"), "foxflow check must take its seeds from --seeds, got --seed=7."),
    (("data", "nowhere.dbn"), "nowhere.dbn must be a market file, got no such file."),
    (("data", "/"), ""),
    (("compare", "one"), "Missing argument 'run_b'"),
    (("compare", "one", "two"), "RUN must be a folder, a run id or a run name, got one."),
    (("gate", "one", "two"), "RUN must be a folder, a run id or a run name, got one."),
    (("verify", "one"), "RUN must be a folder, a run id or a run name, got one."),
    (("compare", "/", "/"), "/ must be a record, a folder with manifest.json, got a folder without one."),
    (("gate", "/", "/"), "/ must be a record, a folder with manifest.json, got a folder without one."),
    (("verify", "/"), "/ must be a record, a folder with manifest.json, got a folder without one."),
]


@pytest.mark.parametrize(("words", "line"), WRONG, ids=[" ".join(words) or "nothing" for words, _ in WRONG])
def test_wrong_use_is_one_line_and_leaves_nothing_behind(
    command: Command, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    assert refused(command(*words)).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_market_data_is_one_line(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "tape.csv"
    for content in (b"", b"hello,world\n1,2\n", bytes(range(256))):
        file.write_bytes(content)
        assert "tape.csv" in refused(command(*TINY, "--data", "tape.csv"))
        assert "tape.csv" in refused(command("data", "tape.csv", "--json"))
    assert list(tmp_path.iterdir()) == [file]


def test_cuda_is_refused_where_there_is_none(command: Command, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    line = refused(command(*TINY, "--device", "cuda"))
    assert line == "--device cuda must find a CUDA device, got none. Use --device cpu; its bits are the same."
    assert list(tmp_path.iterdir()) == []


def test_version_and_help_are_no_mistakes(command: Command) -> None:
    assert command("--version") == (0, f"{__version__}\n", "")
    code, out, _ = command("run", "--help")
    assert code == 0
    assert "--dump-steps" in out


STORES = """
import io, os, sys
from contextlib import redirect_stderr
from foxflow.cli import main
os.chdir({folder!r})
for uri in {uris!r}:
    os.environ["MLFLOW_TRACKING_URI"] = uri
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            main(["run", "--seed", "42", "--preset", "tiny", "--steps", "2", "--eval-steps", "0", "--json"])
    except SystemExit as end:
        print(end.code, said.getvalue(), end="")
print(os.listdir())
"""


def test_a_store_that_cannot_be_written_is_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    uris = ["sqlite:////proc/nope/x.db", "sqlite:////etc/hostname/x.db", "file:///nowhere", "nonsense://a", "folder"]
    *lines, left = fresh_process(STORES.format(folder=str(tmp_path), uris=uris)).split("\n")
    assert left == "[]"
    assert [line.startswith("2 foxflow: ") and uri in line for uri, line in zip(uris, lines, strict=True)] == [True] * 5


def test_an_unreadable_line_is_refused_in_a_fresh_process_too(tmp_path: Path) -> None:
    line = refused(fresh(tmp_path, *TINY, "--data", "nowhere.dbn"))
    assert line.startswith("--data must name a file, got no such file: nowhere.dbn.")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_installation_is_a_defect_and_no_verdict(tmp_path: Path) -> None:
    """The reader's module is missing; Python alone would end with 1, which reads as «diverged»."""
    keep = shutil.ignore_patterns("*.so", "__pycache__", "reader.py")
    shutil.copytree(ROOT / "foxflow", tmp_path / "broken" / "foxflow", ignore=keep)
    (tmp_path / "folder").mkdir()
    for words in (("verify", "folder"), ("compare", "folder", "folder"), ("gate", "folder", "folder")):
        code, out, err = fresh(tmp_path, *words, "--json", package=tmp_path / "broken")
        assert (code, out) == (4, "")
        last = err.rstrip("\n").split("\n")[-1]
        assert last.startswith(f"foxflow: a defect of foxflow {__version__}: No module named 'foxflow.record.reader'")


def test_json_of_a_market_file_is_alone_on_stdout(command: Command, shared_data: Path) -> None:
    (good,) = shared_data.glob("bad/00_good_reference/*message*.csv")
    code, out, err = command("data", str(good), "--json")
    assert (code, err) == (0, "")
    assert {"format", "rows", "levels", "dropped", "instrument", "tick", "from", "to"} <= json.loads(out).keys()
    assert out.count("\n") == 1
