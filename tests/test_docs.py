"""The documentation builds with every link whole, and each command it shows does what it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.commanding import ROOT, fresh
from track.serving import free_port

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.M | re.S)
_EXITS = re.compile(r"#\s*exits (\d)")
MEANT = {"RUN_A": "one", "RUN_B": "two", "RUN": "one", "BUFFER": "iqn_q_values", "OTHER/bin/python": sys.executable}
"""What a page calls by a word of its own."""


def source(page: str) -> str:
    """The text of a page: one of docs/, or README.md."""
    return (ROOT / page if page == "README.md" else ROOT / "docs" / page).read_text(encoding="utf-8")


def lines(page: str) -> list[tuple[str, str]]:
    """(language of its block, text) of every line of code on a page."""
    return [(kind, line.strip()) for _, kind, block in _BLOCK.findall(source(page)) for line in block.splitlines()]


def commands(page: str) -> list[tuple[list[str], int]]:
    """(words after `foxflow`, exit code) of every foxflow command that a page shows at a prompt."""
    found = []
    for line in [line[2:] for kind, line in lines(page) if kind == "console" and line.startswith("$ foxflow ")]:
        words = [MEANT.get(word.strip("[]"), word) for word in shlex.split(line, comments=True)[1:]]
        ends = _EXITS.search(line)
        found.append((words, int(ends[1]) if ends else 0))
    return found


def served(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of `foxflow ui`, left by Ctrl-C once it says where to look."""
    command = [sys.executable, "-m", "foxflow", *words, "--port", str(free_port())]
    child = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    first = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate(timeout=60)
    return child.returncode, first + rest


def test_the_site_builds_and_no_link_is_broken(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.name for path in (tmp_path / "site").glob("*/index.html")} | {"index.html"}
    assert pages == {"index.html"}
    assert len(list((tmp_path / "site").rglob("index.html"))) == len(PAGES)


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if f": {page}" not in text] == []


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_a_command_is_shown_at_a_prompt_where_it_is_tested(page: str) -> None:
    shown = [(kind, line) for kind, line in lines(page) if line.removeprefix("$ ").startswith("foxflow ")]
    assert [line for kind, line in shown if kind != "console" or not line.startswith("$ ")] == []
    assert len(shown) == len(commands(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in ["README.md", *PAGES] if commands(page)])
def test_every_command_of_a_page_ends_as_it_says(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "expectations", tmp_path / "my-suites")
    if "RUN_A" in source(page):
        for name in ("one", "two"):
            assert fresh(tmp_path, "run", "--seed", "7", "--preset", "tiny", "--run-name", name)[0] == 0
    for words, wanted in commands(page):
        code, said = served(tmp_path, *words) if words[0] == "ui" else fresh(tmp_path, *words)[::2]
        assert code == wanted, (words, said[-2000:])
