"""divergence.png: the map of a comparison for MLflow's compare page, where two runs' pictures stand side by side."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from foxflow import flow
from foxflow.report import text
from foxflow.report.grid import Column, Grid, grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, ABOVE, BELOW, LEFT, RIGHT = 1200, 26, 110, 80, 150, 30
"""Pixels: the picture's width, a group's height, and what is kept free around the map."""
DPI = 100

COLOURS = {"": "#ffffff", flow.EQUAL: "#cbdeeb", flow.MISSING: "#e8c34a", flow.DIVERGE: "#b93a0e"}
"""Of cells, by verdict; differing and missing ones carry a sign too."""
INK, SOFT = "#1a1d21", "#555e68"
VERDICTS = {flow.EQUAL: "#14683a", flow.DIVERGED: "#b0330a"}
OPEN = "#6d5200"

NAME = 18
"""Characters of a group's name."""


def picture(found: flow.Comparison) -> bytes:
    """Draw the map: steps across, groups down, a cross where they differ, a frame around the first divergence.

    Returns:
        A PNG, WIDTH pixels wide and ROW high a group beside its margins; the same comparison gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    laid = grid(found)
    height = ABOVE + ROW * max(1, len(laid.rows)) + BELOW
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor="#ffffff")
    FigureCanvasAgg(figure)
    _head(figure, found, height)
    if laid.rows:
        box = (LEFT / WIDTH, BELOW / height, (WIDTH - LEFT - RIGHT) / WIDTH, ROW * len(laid.rows) / height)
        _cells(figure.add_axes(box), laid)
    _legend(figure, laid, height)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def _head(figure: Figure, found: flow.Comparison, height: int) -> None:
    title = f"{text.SYMBOLS[found.verdict]}  {text.NAMES[found.verdict]}"
    colour = VERDICTS.get(found.verdict, OPEN)
    figure.text(24 / WIDTH, 1 - 22 / height, title, size=17, weight="bold", color=colour, va="top", parse_math=False)
    said = _drawable(text.headline(found), 150)
    figure.text(24 / WIDTH, 1 - 58 / height, said, size=9.5, color=INK, va="top", parse_math=False)


def _cells(axes: Axes, laid: Grid) -> None:
    from matplotlib.colors import ListedColormap

    order = list(COLOURS)
    values = [[order.index(cell.verdict) for cell in cells] for _, cells in laid.rows]
    axes.pcolormesh(
        values, cmap=ListedColormap(list(COLOURS.values())), vmin=0, vmax=len(order) - 1, edgecolors="#ffffff", lw=1
    )
    axes.set(xlim=(0, len(laid.columns)), ylim=(len(laid.rows), 0), frame_on=False)
    for verdict, marker, colour in ((flow.DIVERGE, "x", "#ffffff"), (flow.MISSING, "_", INK)):
        at = [(x, y) for y, (_, cells) in enumerate(laid.rows) for x, c in enumerate(cells) if c.verdict == verdict]
        axes.scatter([x + 0.5 for x, _ in at], [y + 0.5 for _, y in at], s=22, marker=marker, color=colour, lw=1.4)
    if laid.first is not None:
        from matplotlib.patches import Rectangle

        axes.add_patch(Rectangle(laid.first, 1, 1, fill=False, edgecolor=INK, lw=2.5, clip_on=False))
    names = [_drawable(name, NAME) for name, _ in laid.rows]
    axes.set_yticks([y + 0.5 for y in range(len(names))], names, size=9, color=INK, parse_math=False)
    ticks = _ticks(laid.columns)
    labels = [_drawable(label, NAME) for _, label in ticks]
    axes.set_xticks([x for x, _ in ticks], labels, size=8, color=SOFT, parse_math=False)
    axes.tick_params(length=0)


def _ticks(columns: tuple[Column, ...]) -> list[tuple[float, str]]:
    """Where labels go and what they say: of many columns every fifth of training, and the middle of other phases."""
    named = [str(c.first) if c.phase == flow.TRAIN else f"{c.phase} {c.first}" for c in columns]
    if len(columns) <= 20:
        return [(i + 0.5, name) for i, name in enumerate(named)]
    places: dict[str, list[int]] = {}
    for i, column in enumerate(columns):
        places.setdefault(column.phase, []).append(i)
    train = places.pop(flow.TRAIN, [])
    return [(i + 0.5, named[i]) for i in train[::5]] + [
        (sum(at) / len(at) + 0.5, phase) for phase, at in places.items()
    ]


def _legend(figure: Figure, laid: Grid, height: int) -> None:
    from matplotlib.patches import Rectangle

    signs = ((flow.EQUAL, "", "equal to the last bit"), (flow.DIVERGE, "×", "differs"), (flow.MISSING, "–", "missing"))
    for i, (verdict, sign, words) in enumerate(signs):
        x, y = LEFT + 190 * i, 18
        box = Rectangle(
            (x / WIDTH, y / height), 20 / WIDTH, 16 / height, facecolor=COLOURS[verdict], transform=figure.transFigure
        )
        figure.add_artist(box)
        ink = "#ffffff" if verdict == flow.DIVERGE else INK
        figure.text((x + 10) / WIDTH, (y + 8) / height, sign, size=10, color=ink, ha="center", va="center")
        figure.text((x + 28) / WIDTH, (y + 8) / height, words, size=9, color=SOFT, va="center")
    hidden = f"{text.count(laid.hidden, 'more group')} not drawn" if laid.hidden else ""
    said = "frame: the first" + (f"; {hidden}" if hidden else "") if laid.first else hidden
    figure.text((LEFT + 570) / WIDTH, 26 / height, said, size=9, color=SOFT, va="center")


def _drawable(words: str, longest: int) -> str:
    """Visible text that fits and that the picture's font has; other characters are boxes."""
    shown = text.visible(words[: longest + 1])
    glyphs = _glyphs()
    cut = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    return "".join(c if ord(c) in glyphs else "□" for c in cut)


def _glyphs() -> dict[int, int]:
    from matplotlib.font_manager import fontManager, get_font

    return dict(get_font(fontManager.findfont("DejaVu Sans")).get_charmap())
