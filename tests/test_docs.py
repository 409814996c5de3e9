"""The documentation builds with every link whole, and each command it shows does what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli.commanding import ROOT, fresh

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
_BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```", re.M | re.S)
_EXITS = re.compile(r"#\s*exits (\d)")


def commands(page: str) -> list[tuple[list[str], int]]:
    """(words after `foxflow`, exit code) of every command that a page shows at a prompt."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = [line.strip() for _, block in _BLOCK.findall(text) for line in block.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    exits = [_EXITS.search(line) for line in shown]
    return [
        (shlex.split(line, comments=True)[1:], int(found[1]) if found else 0)
        for line, found in zip(shown, exits, strict=True)
    ]


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


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_of_a_page_ends_as_it_says(page: str, tmp_path: Path) -> None:
    for words, wanted in commands(page):
        code, _, err = fresh(tmp_path, *words)
        assert code == wanted, (words, err[-2000:])
