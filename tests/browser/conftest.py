"""A server with two pairs of runs, made as a person makes them, and a browser that has never been there before.

`FOXFLOW_SCREENSHOTS=docs/images .venv/bin/python -m pytest tests/browser` renews the pictures of the documentation.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser.looking import MLFLOWS_OWN, Seen, shrink
from cli.commanding import ROOT, fresh
from track.serving import free_port, server

from foxflow.track.server import serving

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SCREEN = {"width": 1280, "height": 900}
COMPILED = ("_C", "_fx1", "_integers")
TINY = ("--preset", "tiny", "--steps", "6")


@dataclass(frozen=True, slots=True)
class Served:
    """Where MLflow is, and the ids of a run with its twin and of two runs that differ."""

    uri: str
    same: tuple[str, str]
    differ: tuple[str, str]

    def page(self, *runs: str) -> str:
        """Where `foxflow ui` sends those who want to look at them."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", self.uri)
            with serving(free_port(), runs) as (pages, _):
                return pages[-1]


def asked(folder: Path, uri: str, code: int, *words: str, package: Path = ROOT) -> dict[str, list[str]]:
    """What a command says with --json, in a folder and store of ours."""
    folder.mkdir(exist_ok=True)
    ended, out, err = fresh(folder, *words, "--json", package=package, MLFLOW_TRACKING_URI=uri)
    assert ended == code, err
    return dict(json.loads(out))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A clean run and its twin, and two runs that `check` found to differ, in a server with proxied artifacts."""
    folder = tmp_path_factory.mktemp("browser")
    clean = folder / "outside-git"
    for part in ("foxflow", "expectations"):
        shutil.copytree(ROOT / part, clean / part, ignore=shutil.ignore_patterns("__pycache__"))
    for module in COMPILED:  # an editable install keeps these elsewhere
        built = find_spec(f"foxflow.{module}")
        assert built is not None, module
        shutil.copy(str(built.origin), clean / "foxflow")

    def twins() -> tuple[str, str]:
        run = ("run", "--seed", "42", *TINY)
        a, b = (asked(folder / "twins", made.uri, 0, *run, package=clean)["run_id"] for _ in "ab")
        return str(a), str(b)

    def departed() -> tuple[str, str]:
        check = ("check", "--seeds", "43", "--specimen", "unseeded_outcome", *TINY)
        (seed,) = asked(folder / "pair", made.uri, 1, *check)["seeds"]
        return seed["run_a"], seed["run_b"]  # type: ignore[index]

    with server(folder / "server") as made, ThreadPoolExecutor() as pool:
        same, differ = pool.submit(twins), pool.submit(departed)
        yield Served(made.uri, same.result(), differ.result())


@pytest.fixture(scope="session")
def launched(browser_program: str) -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=browser_program, args=FLAGS.split())
        yield program
        program.close()


@pytest.fixture
def look(launched: object) -> Iterator[Callable[..., Seen]]:
    """Opens a page in a fresh profile. At the end nothing on it may have failed or come from another machine."""
    pages: list[Seen] = []

    def opened(**options: object) -> Seen:
        context = launched.new_context(**{"viewport": SCREEN, **options})  # type: ignore[attr-defined]
        context.set_default_timeout(20_000)
        pages.append(Seen(context.new_page()))
        return pages[-1]

    yield opened
    for one in pages:
        one.page.context.close()
        assert [line for line in one.complaints if not MLFLOWS_OWN.search(line)] == []
        assert {host for host in one.hosts if not host.startswith("127.0.0.1:")} == set()


@pytest.fixture
def keep() -> Callable[[Seen, str], None]:
    """Keeps what is on the screen as a picture of the documentation, where FOXFLOW_SCREENSHOTS names a folder."""
    folder = os.environ.get("FOXFLOW_SCREENSHOTS")

    def kept(seen: Seen, name: str) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(shrink(seen.page.screenshot()))

    return kept
