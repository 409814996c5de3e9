"""Rooms from left to right: who imports whom, what stays unloaded, and what no kernel may say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from bits import fresh_process

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "foxflow"

ORDER = (
    *(("errors",), ("flow",), ("config",), ("digest",), ("provenance",), ("opening",), ("leaves",)),
    *(("determinism",), ("ops",), ("reference",), ("branch",), ("capture",)),
    *(("market",), ("agent",), ("replay",)),
    ("train", "record", "track", "comparison", "explanation", "gate"),
    *(("recorder",), ("report",), ("experiments",)),
    ("cli",),
)
"""From left to right; rooms of one place import none of each other."""
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}
OUTSIDE = {"__init__", "__main__", "plugin"}
"""Modules that are no room: the lazy table of names, the command, and what MLflow itself imports."""
PACKAGE_ITSELF = {"opening.py", "explanation/opening.py"}
"""May import `foxflow` whole, for its lazy table of public names."""
COMPILED = {"ops", "digest"}
"""May load the compiled module."""

HEAVY = {
    "torch": {
        *("determinism", "ops", "reference", "branch", "capture", "market", "agent", "replay", "train", "recorder"),
        "experiments",
    },
    "mlflow": {"track"},
    "great_expectations": {"gate"},
    "pandas": {"gate"},
    "jinja2": {"report"},
    "matplotlib": {"report"},
    "pyarrow": {"flow", "market", "record", "track", "comparison", "explanation", "gate", "recorder", "report"},
}
"""Library -> rooms that may name it."""

MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(text: str) -> set[str]:
    """Dotted names that a module's text imports anywhere, also inside functions and TYPE_CHECKING."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def faults(name: str, text: str) -> list[str]:
    """Imports of one module that no table allows.

    Args:
        name: the file below foxflow/.
    """
    room, found = name.split("/", maxsplit=1)[0].removesuffix(".py"), []
    for dotted in sorted(imported(text)):
        top, *rest = dotted.split(".")
        if top in HEAVY and room not in HEAVY[top]:
            found.append(f"{name} imports {dotted}")
        if top != "foxflow" or rest == ["__version__"]:
            continue
        other = rest[0] if rest else ""
        allowed = (
            name in PACKAGE_ITSELF if not rest else room in COMPILED if other == "_C" else _left_of(other, room, dotted)
        )
        if not allowed:
            found.append(f"{name} imports {dotted}")
    return found


def _left_of(other: str, room: str, dotted: str) -> bool:
    assert other in PLACE, f"{dotted} is no room; name it in ORDER"
    return other == room or PLACE[other] < PLACE[room]


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if room_of(path) not in OUTSIDE],
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_a_room_imports_only_rooms_to_its_left(path: Path) -> None:
    assert faults(path.relative_to(PACKAGE).as_posix(), path.read_text()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flow.py", "from foxflow import config"),
        ("record/writer.py", "from foxflow.comparison import compare"),
        ("record/writer.py", "def f():\n    from foxflow import gate"),
        ("comparison/verdict.py", "import foxflow"),
        ("comparison/verdict.py", "from foxflow import _C"),
        ("comparison/verdict.py", "import torch"),
        ("track/run.py", "from foxflow.experiments.run import perform"),
        ("cli/app.py", "from mlflow import MlflowClient"),
        ("train/trainer.py", "from foxflow.record import Writer"),
    ],
)
def test_the_table_of_rooms_refuses(name: str, text: str) -> None:
    assert len(faults(name, text)) == 1


def test_every_module_belongs_to_a_room() -> None:
    assert {room_of(path) for path in MODULES} - OUTSIDE - set(PLACE) == set()


def test_the_package_itself_imports_no_room_when_it_is_imported() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    top = {ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    assert [line for line in top if "foxflow" in line] == []


LOADED = """
import sys
heavy = {"torch", "mlflow", "great_expectations", "pandas", "pyarrow", "jinja2", "matplotlib"}
import foxflow, foxflow.errors, foxflow.flow, foxflow.config
assert "numpy" not in sys.modules
import foxflow.cli
print("cli", *sorted(heavy & set(sys.modules)))
import foxflow.comparison, foxflow.explanation, foxflow.record, foxflow.track, foxflow.gate
print("stages", *sorted(heavy & set(sys.modules)))
"""


def test_the_command_line_loads_nothing_heavy_and_comparing_needs_no_torch() -> None:
    assert fresh_process(LOADED) == "cli\nstages pyarrow"


PUBLIC = """
import importlib, pkgutil, foxflow
names = [name for name in foxflow.__all__ if name != "__version__"]
def twice():
    return [(getattr(foxflow, name), getattr(foxflow, name)) for name in names]
before = twice()
for module in pkgutil.walk_packages(foxflow.__path__, "foxflow."):
    if not module.name.startswith("foxflow._") and module.name != "foxflow.plugin":
        importlib.import_module(module.name)
for name, pairs in zip(names, zip(before, twice())):
    (a, b), (c, d) = pairs
    assert a is b is c is d and callable(a), name
    assert name in dir(foxflow)
try:
    foxflow.nothing
except AttributeError as error:
    print(len(names), error)
"""


def test_each_public_name_works_twice_also_after_every_room_was_imported() -> None:
    count, _, said = fresh_process(PUBLIC).partition(" ")
    assert int(count) >= 2
    assert said == "module 'foxflow' has no attribute 'nothing'"


BANNED = re.compile(r"use_fast_math|-ffast-math|-Ofast|-march=native|-mtune=native|atomicAdd(?!.*// integer)")
SOURCES = sorted(
    path
    for path in (*(ROOT / "cuda_ext").iterdir(), ROOT / "pyproject.toml", ROOT / "Makefile")
    if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".txt", ".toml", "")
)


def banned(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if BANNED.search(line)]


BUGS = {"specimens_cuda.cu": ["atomicAdd(p.c + i * p.n + j, sum);", "atomicAdd(sums + column, sum);"]}
"""The one source that may: a split-K product and a sum by atomics are among the bugs that are kept to be found."""


def test_no_source_asks_for_fast_math_or_this_machine_s_instructions_or_adds_floats_atomically() -> None:
    assert len(SOURCES) > 40
    assert {path.name: lines for path in SOURCES if (lines := banned(path.read_text()))} == BUGS


@pytest.mark.parametrize(
    "line",
    ["  atomicAdd(out + i, x);", "set(FLAGS --use_fast_math)", "-march=native", "atomicAdd(a, b);  // floats"],
)
def test_the_ban_sees(line: str) -> None:
    assert banned(f"int x;\n{line}\n") == [line.strip()]


def test_the_ban_lets_integer_sums_pass() -> None:
    assert banned("  atomicAdd(sums, lane);  // integer") == []
