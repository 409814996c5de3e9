"""Names and values from a record are text: none becomes markup, hides, or turns its surroundings around."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from record.making import record
from report.reading import Element, long, page, parsed

from foxflow import flow, report
from foxflow.report import text

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": "\" onmouseover='alert(1)' x=\"",
    "closing": "</title></style></bdi></table><img src=x onerror=alert(1)>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "entity": "&lt;b&gt;&#60;script&#62;",
    "newline": "one\ntwo\r\n\tthree\0",
    "direction": "\u202egnp.exe\u2066\u200f",
    "surrogate": "lone \ud800 half",
    "long": "x" * 10_000,
    "css": "*/ } body { display: none } /*",
    "other script": "שלום 損失 مرحبا",
}


def everywhere(name: str) -> tuple[flow.Comparison, report.Findings]:
    """A comparison whose every text is `name`."""
    buffer = flow.BufferDiff(
        name=name, k=None, verdict=flow.DIVERGE, dtype=name, shape=(2,), elements=2, differing=1, max_abs="nan"
    )
    group = flow.GroupDiff(group=name, verdict=flow.DIVERGE, compared=1, buffers=(buffer,))
    where = flow.Where(step=0, k=None, group=name, buffer=name)
    triple = ((name, name, name + "b"),)
    steps = tuple(flow.StepDiff(step=i, phase=phase, groups=(group,)) for i, phase in enumerate((flow.TRAIN, name)))
    found = flow.Comparison(
        a=name, b=name, verdict=flow.DIVERGED, reason=name, first=where, compared=1, differing=1, missing=0,
        steps=steps, unlike=triple, environment=triple, files=((name, True),), fingerprints=(name, name),
    )  # fmt: skip
    root = flow.Root(
        where=where, cause=name, confidence=name, producer=name, rule=name, sentence=name, evidence=(name,),
        also=(name,),
    )  # fmt: skip
    tried = flow.Experiment(name=name, repeats=1, outcome=name, meaning=name, reproduced=True, command=name)
    explanation = flow.Explanation(comparison=found, roots=(root,), case=name, ask=(name,))
    proof = flow.Proof(explanation=explanation, accused=root, proven=True, experiments=(tried,), folder=name)
    verdict = flow.Verdict(passed=False, sentence=name, suites=(flow.Suite(name=name, evaluated=1, failed=(name,)),))
    return found, report.Findings(proof=proof, verdict=verdict, names=(name, name))


def shape(tree: Element) -> list[tuple[str, list[str]]]:
    return [(e.tag, sorted(e.attributes)) for e in tree]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_name_changes_no_element_and_no_attribute(tmp_path: Path, name: str) -> None:
    """The page has the same elements with the same attributes as that of a plain name."""
    storable = name.replace("\ud800", "?")
    a = record(tmp_path / "a", command=["run", name if name == storable else "x"])
    html, plain = (report.page(found, a, a, more) for found, more in (everywhere(name), everywhere("plain")))
    assert shape(parsed(html)) == shape(parsed(plain))
    html.encode()


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_name_is_read_as_it_is_with_unseen_characters_written_out(tmp_path: Path, name: str) -> None:
    found, more = everywhere(name)
    a = record(tmp_path / "a")
    tree = parsed(report.page(found, a, a, more))
    readable = text.visible(name)
    assert readable.isprintable() or name == HOSTILE["other script"]
    shown = readable if len(readable) <= text.LONGEST else f"{readable[: text.LONGEST]}… (cut)"
    cells = [e.text for e in tree.section("elements").all("bdi")]
    assert shown in cells
    (command,) = [e.text for e in tree.section("roots").all("code")]
    assert command == readable, "a command is never cut"


def test_direction_and_control_characters_never_reach_the_page(tmp_path: Path) -> None:
    a = record(tmp_path / "a")
    for name in (HOSTILE["direction"], HOSTILE["newline"]):
        html = report.page(everywhere(name)[0], a, a, everywhere(name)[1])
        assert not set(html) & set("\u202e\u2066\u200f\0\r\t")


def test_ten_thousand_characters_in_every_name_stay_below_a_megabyte(tmp_path: Path) -> None:
    found, name = long(2000), "n" * 10_000
    steps = tuple(
        dataclasses.replace(
            step,
            groups=tuple(
                dataclasses.replace(
                    group,
                    group=f"{group.group}{name}",
                    buffers=tuple(dataclasses.replace(b, name=name) for b in group.buffers[:2]),
                )
                for group in step.groups
            ),
        )
        for step in found.steps
    )
    a = record(tmp_path / "a")
    html = report.page(dataclasses.replace(found, steps=steps), a, a)
    assert len(html.encode()) < 1_000_000


def test_a_manifest_of_hostile_values_is_text_too(tmp_path: Path) -> None:
    name = HOSTILE["closing"]
    a = record(tmp_path / "a", command=["run", name], seed=name)
    tree = page((everywhere("x")[0], a, a))
    assert f"foxflow run '{name}'" in tree.section("repeat").text
    assert {e.tag for e in tree} & {"img", "script"} == set()


def test_a_command_that_is_no_list_of_words_is_none(tmp_path: Path) -> None:
    a = record(tmp_path / "a", command=[1, {"x": 2}])
    assert "Its record holds no command." in page((everywhere("x")[0], a, a)).section("repeat").text
