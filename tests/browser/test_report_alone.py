"""The report as a file of its own, in a real browser: without network or script, by keyboard, light and dark."""

from __future__ import annotations

import pytest
from browser.looking import contrast, texts
from report.reading import Pair, diverged, equal

from foxflow import report
from foxflow.explanation import explain
from foxflow.gate import judge

pytestmark = pytest.mark.browser


def written(pair: Pair, folder) -> str:
    """The report of a pair on disk, with its explanation and the gate's verdict."""
    findings = report.Findings(explanation=explain(*pair[1:]), verdict=judge(*pair), names=("ab12", "cd34"))
    path = folder / "report.html"
    path.write_text(report.page(*pair, findings), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def address(tmp_path) -> str:
    return written(diverged(tmp_path), tmp_path)


def test_it_is_read_without_network_and_without_script(look, address):
    seen = look(offline=True, java_script_enabled=False)
    seen.page.goto(address)
    said = seen.page.inner_text("body")
    for words in (
        "Not the same run: they part at step 2",
        "Gate: FAIL",
        "q_logits",
        "environment.threads",
        "foxflow compare",
    ):
        assert words in said
    assert seen.hosts == set()


def test_the_keyboard_alone_leads_from_the_map_to_the_buffers_and_opens_what_is_folded(look, address):
    seen = look()
    seen.page.goto(address)
    keys, focused = seen.page.keyboard, seen.page.locator(":is(a, summary):focus")

    def tab_to(text: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if focused.count() and focused.inner_text().strip().endswith(text):
                return
        raise AssertionError(f"no key leads to {text}")

    keys.press("Tab")
    assert focused.inner_text() == "Skip to the first divergence"
    assert focused.bounding_box()["x"] >= 0, "seen while it has the focus"
    keys.press("Enter")
    assert seen.page.url.endswith("#first")
    tab_to("differs, the first")
    assert focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    keys.press("Enter")
    buffers = seen.page.locator("details:target")
    assert buffers.get_by_text("q_logits").is_visible()
    tab_to("Step 2: 1 buffer")
    keys.press("Enter")
    assert not buffers.get_by_text("q_logits").is_visible()
    keys.press("Space")
    assert buffers.get_by_text("q_logits").is_visible()
    tab_to("1 ✗")
    keys.press("Enter")
    assert focused.locator("xpath=..").locator("li").first.is_visible()


@pytest.mark.parametrize("make", [diverged, equal])
def test_every_text_stands_out_from_what_is_behind_it_in_light_and_in_dark(look, tmp_path, make):
    seen = look()
    seen.page.goto(written(make(tmp_path), tmp_path))
    grounds = []
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme)
        found = texts(seen.page.locator("body"))
        assert len(found) > 60
        assert {text: pair for text, *pair in found if contrast(*pair) < 4.5} == {}
        grounds.append(next(behind for text, _, behind in found if text == "Steps and groups"))
    assert grounds == [(255, 255, 255), (20, 23, 26)]


def test_on_a_phone_nothing_but_wide_tables_is_wider_than_the_screen(look, address):
    seen = look(viewport={"width": 360, "height": 740})
    seen.page.goto(address)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 360
    assert seen.page.get_by_role("heading", level=1).is_visible()
