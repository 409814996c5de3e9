"""What continuous integration reads: exit codes, JUnit, GitHub's step summary, golden fingerprints, the examples."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from cli.commanding import ROOT, fresh

from foxflow.cli.ci import Case, announce, junit_xml, step_summary
from foxflow.errors import Mistake

TINY = ("--preset", "tiny", "--track", "none")
EXAMPLES = ROOT / "examples" / "ci"


def test_a_failed_case_is_a_failure_with_its_reasons_and_hostile_words_stay_words() -> None:
    case = Case("seed 1", False, 'DIVERGED: <b>"&`|\x00', "comparison: ]]> \x1b[31m")
    suite = ElementTree.fromstring(junit_xml("foxflow check", [case]).split("\n", 1)[1])
    (failure,) = suite.iter("failure")
    assert failure.get("message") == 'DIVERGED: <b>"&`|\ufffd'
    assert failure.text == "comparison: ]]> \ufffd[31m"
    row = step_summary("foxflow check", [case]).splitlines()[4]
    assert row.startswith("| seed 1 | ❌ | `DIVERGED")
    assert row.count("|") == 4


def test_a_junit_file_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match="--junit must name a file"):
        announce("foxflow golden", [], tmp_path / "file" / "x.xml")


def test_golden_writes_holds_and_tells_a_changed_fingerprint_and_other_settings(tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    assert fresh(tmp_path, "golden", "golden.json", *TINY)[0] == 2
    assert fresh(tmp_path, "golden", "golden.json", "--seeds", "42,43", *TINY, "--write")[0] == 0
    kept = json.loads(golden.read_text())
    assert [run["seed"] for run in kept["runs"]] == [42, 43]
    assert all({"on", "foxflow", "torch", "device", "machine"} <= set(run["made"]) for run in kept["runs"])
    assert fresh(tmp_path, "golden", "golden.json", "--seeds", "42,43", *TINY, "--threads", "1")[0] == 0

    code, out, _ = fresh(tmp_path, "golden", "golden.json", "--seeds", "44", *TINY, "--json")
    assert code == 3
    assert "--write" in json.loads(out)["seeds"][0]["reason"]
    kept["runs"][0]["fingerprint"] = "fx1:" + "0" * 32
    golden.write_text(json.dumps(kept))
    code, out, _ = fresh(tmp_path, "golden", "golden.json", "--seeds", "42", *TINY)
    assert code == 1
    assert "foxflow golden golden.json --seeds 42 --write --preset tiny" in out

    kept["arithmetic"] = "0"
    golden.write_text(json.dumps(kept))
    assert fresh(tmp_path, "golden", "golden.json", "--seeds", "43", *TINY)[0] == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": 1, "arithmetic": 1, "runs": 3}'])
def test_a_file_that_is_no_golden_is_a_mistake(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.json").write_text(text)
    code, _, err = fresh(tmp_path, "golden", "golden.json", *TINY)
    assert code == 2
    assert "golden.json must" in err


def _commands(file: Path) -> list[str]:
    """Every foxflow command of an example."""
    content = yaml.safe_load(file.read_text())
    steps = [step for job in content.get("jobs", {}).values() for step in job["steps"]]
    hooks = [hook for repo in content.get("repos", []) for hook in repo["hooks"]]
    words = [step.get("run", "") for step in steps] + [hook["entry"] for hook in hooks]
    return [text for text in words if text.startswith("foxflow ")]


@pytest.mark.slow
def test_every_command_of_the_examples_works_and_leaves_junit_and_a_step_summary(tmp_path: Path) -> None:
    assert fresh(tmp_path, "golden", "golden.json", "--seeds", "42,43", *TINY, "--write")[0] == 0
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    commands = [command for file in sorted(EXAMPLES.iterdir()) for command in _commands(file)]
    assert len(commands) == 3
    for command in commands:
        code, _, err = fresh(tmp_path, *shlex.split(command)[1:], GITHUB_STEP_SUMMARY=str(summary))
        assert code == 0, (command, err)
    suite = ElementTree.parse(tmp_path / "reports" / "check.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("foxflow check", "2", "0")
    assert [case.get("name") for case in suite] == ["seed 42", "seed 43"]
    assert all("EQUAL" in (case.findtext("system-out") or "") for case in suite)
    text = summary.read_text()
    assert text.startswith("before\n### foxflow check")
    assert text.count("✅") == 2 + 2 + 1
