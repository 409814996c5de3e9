"""Pages read back as a browser would, and the pairs that they are about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from comparison.doctoring import DUMP, flip
from record.making import record, steps

from foxflow import flow, report
from foxflow.comparison import compare

VOID = {"meta", "br", "img", "link", "input", "hr"}

Pair = tuple[flow.Comparison, flow.Record, flow.Record]


@dataclasses.dataclass
class Element:
    """One element: its name, attributes, parent and own text."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    pieces: list[Element | str] = dataclasses.field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        yield self
        for piece in self.pieces:
            if isinstance(piece, Element):
                yield from piece

    @property
    def text(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    def all(self, tag: str, kind: str | None = None) -> list[Element]:
        return [e for e in self if e.tag == tag and (kind is None or kind in e.classes)]

    def by_id(self, name: str) -> Element:
        (found,) = [e for e in self if e.attributes.get("id") == name]
        return found

    def section(self, name: str) -> Element:
        heading = self.by_id(name)
        assert heading.parent is not None
        assert heading.parent.tag == "section"
        return heading.parent


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, None)
        self.at = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {self.get_starttag_text()}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.pieces.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.pieces.append(data)


def parsed(html: str) -> Element:
    """The page as a tree; every element must be closed by its own end."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root
    return reader.root


def compared(a: flow.Record, b: flow.Record) -> Pair:
    return compare(a, b), a, b


def equal(folder: Path) -> Pair:
    return compared(record(folder / "a", steps(dump=DUMP)), record(folder / "b", steps(dump=DUMP)))


def diverged(folder: Path) -> Pair:
    """One bit of q_logits at step 2, k 1, of which both sides keep the bytes; another thread count."""
    b = record(folder / "b", steps(dump=DUMP, edit=flip), environment={"threads": 4, "device": "cpu"})
    return compared(record(folder / "a", steps(dump=DUMP)), b)


def long(count: int, groups: str = "ABCDEFGHIJKLMNOPQR", first: int = 731) -> flow.Comparison:
    """A run of many steps that differ in all groups from `first` on, with eval and final after them."""
    buffer = flow.BufferDiff(
        name="layer.weight", k=3, verdict=flow.DIVERGE, dtype="f32", shape=(32, 64), elements=2048, differing=7,
        max_abs=1.5, max_ulp=2, first_index=(0, 3), permutation=False, nonfinite=(0, 0),
    )  # fmt: skip
    places = [(flow.TRAIN, i) for i in range(count)] + [(flow.EVAL, i) for i in range(200)] + [(flow.FINAL, count)]
    sound = tuple(flow.GroupDiff(group=g, verdict=flow.EQUAL, compared=20) for g in groups)
    bad = tuple(flow.GroupDiff(group=g, verdict=flow.DIVERGE, compared=20, buffers=(buffer,) * 20) for g in groups)
    told = tuple(
        flow.StepDiff(step=step, phase=phase, groups=sound if i < first else bad)
        for i, (phase, step) in enumerate(places)
    )
    where = flow.Where(step=first, k=3, group=groups[0], buffer="layer.weight")
    return flow.Comparison(
        a="a", b="b", verdict=flow.DIVERGED, reason=None, first=where, compared=1000, differing=500, missing=0,
        steps=told,
    )  # fmt: skip


def page(pair: Pair, **findings: object) -> Element:
    return parsed(report.page(*pair, report.Findings(**findings)))  # type: ignore[arg-type]
