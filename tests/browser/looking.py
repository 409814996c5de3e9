"""What a person does and reads in a browser: pages of MLflow, tables, colours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MLFLOWS_OWN = re.compile(r"/users/current|AG Grid: since|GL Driver Message|ResizeObserver loop")
"""What MLflow's own pages complain of: a server without accounts, its table library, software rendering, its layout."""

YELLOW = (255.0, 249.0, 235.0)
"""MLflow's background of a row whose values differ."""

Colour = tuple[float, ...]


class Seen:
    """A page, with what its console complained of and the hosts that it asked for anything."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda said: self._note(said.type, f"{said.text} {said.location.get('url', '')}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda asked: self._asked(asked.url))

    def open(self, address: str, shows: str) -> None:
        """Go there, wait for a text, and close the assistant that MLflow opens on a first visit."""
        self.page.goto(address)
        self.page.get_by_text(shows).first.wait_for()
        assistant = self.page.get_by_role("button", name="Close", exact=True)
        if assistant.count():
            assistant.click()

    def click(self, *names: str) -> None:
        for name in names:
            self.page.get_by_role("button", name=name, exact=True).click()

    def columns(self, *names: str) -> None:
        """In the runs list, show or hide these."""
        self.page.get_by_role("button", name="Columns").click()
        for name in names:
            self.page.get_by_placeholder("Search columns").fill(name)
            row = self.page.locator("[class*=tree-treenode]").filter(has=self.page.get_by_text(name, exact=True))
            row.locator("[class*=tree-checkbox]").first.click()
        self.page.keyboard.press("Escape")

    def only_differing(self, section: str) -> None:
        """Leave of a section of the compare page what differs."""
        header = self.page.get_by_role("button", name=section, exact=True)
        self.page.locator("[class*=collapse-item]").filter(has=header).get_by_text("Show diff only").click()

    def listed(self) -> dict[str, list[str]]:
        """Of the runs list: run id -> what its row reads, from left to right."""
        rows: dict[str, list[str]] = {}
        for part in self.page.locator("[role=row][row-id]").all():
            rows.setdefault(str(part.get_attribute("row-id")), []).extend(part.inner_text().split("\n"))
        return rows

    def row(self, name: str) -> tuple[list[str], bool]:
        """Of the compare page's row of a name: the values, and whether it is yellow."""
        found = self.page.get_by_role("row").filter(has=self.page.get_by_text(name, exact=True)).first
        first, *cells = found.locator("th, td").all()
        assert first.inner_text().strip() == name
        return [cell.inner_text().strip() for cell in cells], all(
            texts(cell)[0][2] == YELLOW for cell in cells if cell.inner_text().strip()
        )

    def metric(self, name: str) -> list[str]:
        """Of the compare page's metrics, which scroll for themselves: the values on the line of a name."""
        found = self.page.get_by_text(name, exact=True)
        self.page.locator("[role=grid]").last.hover()
        for _ in range(100):
            line = found.first.evaluate(_LINE) if found.count() else []
            if len(line) == 3:
                return [str(text) for text in line[1:]]
            self.page.mouse.wheel(0, 120)
            self.page.wait_for_timeout(100)
        return []

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _asked(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob", "file"):
            self.hosts.add(parts.netloc)


_LINE = """e => {
  const middle = x => { const box = x.getBoundingClientRect(); return box.y + box.height / 2 }
  return [...document.querySelectorAll('[role=rowgroup] > *')]
    .filter(cell => Math.abs(middle(cell) - middle(e)) < 4).map(cell => cell.innerText)
}"""


_COLOURS = """root => {
  const brush = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
  const rgba = colour => {
    brush.clearRect(0, 0, 1, 1)
    brush.fillStyle = colour
    brush.fillRect(0, 0, 1, 1)
    return [...brush.getImageData(0, 0, 1, 1).data]
  }
  const behind = e => {
    if (!e) return [255, 255, 255]
    const [r, g, b, a] = rgba(getComputedStyle(e).backgroundColor)
    return a === 255 ? [r, g, b] : behind(e.parentElement).map((c, i) => c + ([r, g, b][i] - c) * a / 255)
  }
  return [root, ...root.querySelectorAll('*')]
    .filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => [e.textContent.trim(), rgba(getComputedStyle(e).color).slice(0, 3), behind(e)])
}"""


def texts(what: Locator) -> list[tuple[str, Colour, Colour]]:
    """Every text that is seen in an element: it, its colour and the one behind it; red, green, blue."""
    return [(text, tuple(ink), tuple(behind)) for text, ink, behind in what.evaluate(_COLOURS)]


def contrast(a: Colour, b: Colour) -> float:
    """WCAG's ratio, 1 to 21; text must reach 4.5."""

    def light(colour: Colour) -> float:
        parts = [one / 255 for one in colour]
        red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


def shrink(png: bytes) -> bytes:
    """The picture in 256 colours, a third of the bytes."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return out.getvalue()
