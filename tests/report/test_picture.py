"""divergence.png: its size, and that the colour of a difference is where the difference is."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report.reading import diverged, equal, long
from report.test_hostile import HOSTILE, everywhere

from foxflow import flow, report
from foxflow.report.picture import ABOVE, BELOW, COLOURS, LEFT, RIGHT, ROW, WIDTH


def opened(content: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    return np.asarray(image.convert("RGB"))


def pixels(image: np.ndarray, verdict: str) -> np.ndarray:
    """Where the map, without legend and head, has exactly the colour of a verdict."""
    wanted = [int(COLOURS[verdict][i : i + 2], 16) for i in (1, 3, 5)]
    return (image[ABOVE:-BELOW, LEFT:-RIGHT] == wanted).all(axis=2)


def test_the_diverged_cell_has_its_colour_and_no_other_cell_has(tmp_path: Path) -> None:
    image = opened(report.picture(diverged(tmp_path)[0]))
    assert image.shape == (ABOVE + 4 * ROW + BELOW, WIDTH, 3)
    ys, xs = np.nonzero(pixels(image, flow.DIVERGE))
    wide = (WIDTH - LEFT - RIGHT) / 6
    assert len(xs) > 0.6 * wide * ROW
    assert 2 * wide <= xs.min() < xs.max() < 3 * wide, "step 2"
    assert 3 * ROW <= ys.min() < ys.max() < 4 * ROW, "group H, the fourth"


def test_an_equal_pair_has_no_pixel_of_a_difference(tmp_path: Path) -> None:
    image = opened(report.picture(equal(tmp_path)[0]))
    assert not pixels(image, flow.DIVERGE).any()
    assert pixels(image, flow.EQUAL).mean() > 0.8


def test_missing_has_its_own_colour(tmp_path: Path) -> None:
    found, _, _ = equal(tmp_path)
    last = found.steps[-1]
    gone = tuple(dataclasses.replace(g, verdict=flow.MISSING) for g in last.groups)
    found = dataclasses.replace(
        found, verdict=flow.INCOMPLETE, steps=(*found.steps[:-1], dataclasses.replace(last, groups=gone))
    )
    _, xs = np.nonzero(pixels(opened(report.picture(found)), flow.MISSING))
    assert xs.min() >= 5 * (WIDTH - LEFT - RIGHT) / 6 - 1


def test_long_runs_have_the_same_size_and_the_same_bytes_again() -> None:
    content = report.picture(long(2000))
    assert opened(content).shape == (ABOVE + 18 * ROW + BELOW, WIDTH, 3)
    assert content == report.picture(long(2000))


def test_a_comparison_of_nothing_is_still_a_picture() -> None:
    found = dataclasses.replace(long(1), steps=(), first=None, verdict=flow.NOT_COMPARABLE, reason="corrupt: a: b")
    assert opened(report.picture(found)).shape == (ABOVE + ROW + BELOW, WIDTH, 3)


@pytest.mark.parametrize("name", [*HOSTILE.values(), "$\\frac{1}$", "$x"])
def test_hostile_names_are_drawn_as_text(name: str) -> None:
    """Neither formulas nor glyphs that the font lacks, of which matplotlib would warn."""
    opened(report.picture(everywhere(name)[0]))
