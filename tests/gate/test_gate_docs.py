"""The suites as a user of Great Expectations meets them: opened there, described, and read as Data Docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
from cli.commanding import here
from gate.pairs import faults
from report.reading import parsed
from track.small_record import ENVIRONMENT, ROWS, SUMMARIES, write

from foxflow.comparison import compare
from foxflow.gate import frames, judge
from foxflow.gate.suites import NAMES, folder

HOSTILE = "<script>document.title = 'owned'</script>"

ELSEWHERE = """
import json, sys
import pandas as pd
import great_expectations as gx
context = gx.get_context(mode="file", project_root_dir=".")
batch = context.data_sources.add_pandas("own").add_dataframe_asset("frame").add_batch_definition_whole_dataframe("all")
said = {}
for name, parameters in json.loads(sys.argv[1]).items():
    suite = context.suites.get(name)
    checks = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
    frame = {"dataframe": pd.read_parquet(f"{name}.parquet")}
    result = checks.run(batch_parameters=frame, expectation_parameters=parameters)
    said[name] = [len(suite.expectations), len(result.results), result.success]
assert "foxflow" not in sys.modules
print(json.dumps(said))
"""


def test_the_suites_open_in_great_expectations_and_run_there_without_foxflow(pair, tmp_path):
    """As files of a project of its own; of `buffers` the one that is foxflow's is dropped, as the suite's notes say."""
    shutil.copytree(folder(), tmp_path / "gx" / "expectations")
    stated = {"deterministic": ["true"], "float_contract": [ENVIRONMENT["float_contract"]]}
    parameters = {"record": {"rows": ROWS, "names": []}, "comparison": {"pairs": ROWS}, "environment": stated}
    sides = [frames.digests(record) for record in pair]
    (dump, *_) = frames.dumped(*pair)
    looked_at = dict(zip(NAMES, (sides[0], frames.paired(*sides), frames.environment(pair[0]), dump.data), strict=True))
    for name, data in looked_at.items():
        data.to_parquet(tmp_path / f"{name}.parquet")
    ended = subprocess.run(
        [sys.executable, "-S", "-c", ELSEWHERE, json.dumps({**parameters, "buffers": {}})],
        cwd=tmp_path,
        env={"PYTHONPATH": sysconfig.get_path("purelib"), "GX_ANALYTICS_ENABLED": "false", "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    listed = {name: len(json.loads((folder() / f"{name}.json").read_text())["expectations"]) for name in NAMES}
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        name: [listed[name] - (name == "buffers")] * 2 + [True] for name in NAMES
    }


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (0.0, -0.0, "0.0 (0x0000000000000000) in A, -0.0 (0x8000000000000000) in B"),
        (np.zeros(2, "<f4"), np.zeros(2, "<f8"), "float32 [2] in A, float64 [2] in B"),
        (np.zeros((2, 1)), np.zeros((1, 2)), "float64 [2, 1] in A, float64 [1, 2] in B"),
        (np.array([[1, 2], [3, 4]]), np.array([[1, 2], [5, 6]]), "2 of 4 elements differ, the first at [1, 0]: 3 (0x"),
        (np.array([b"\0\1"], "V2"), np.array([b"\0\2"], "V2"), "1 of 1 elements differ, the first at [0]: 0x0100 in A"),
        (None, np.zeros(2), "missing in A"),
        (None, None, "missing in A and B"),
    ],
)
def test_how_two_buffers_differ_is_said_in_words(a, b, words):
    from foxflow.gate.expectations import difference

    assert words in str(difference(a, b))
    if a is not None:
        assert difference(a, np.array(a)) is None


def test_every_dtype_of_a_record_is_an_array_of_its_bytes():
    from foxflow.digest import DTYPES

    for name, (_, size) in DTYPES.items():
        array = frames._array(name, "[3]", bytes(range(3 * size)) if name != "bool" else b"\1\0\1")
        assert (array.shape, array.itemsize) == ((3,), size), name
    assert frames._array("f32", "[]", b"\0\0\x80\x3f") == 1.0


def test_the_expectation_of_our_own_is_described_where_great_expectations_shows_it():
    from great_expectations.expectations.registry import get_expectation_impl

    from foxflow.gate.expectations import ExpectBuffersToBeBitEqual

    found = get_expectation_impl("expect_buffers_to_be_bit_equal")
    assert found is ExpectBuffersToBeBitEqual
    assert "bit-equal" in str(found.__doc__)
    assert "−0.0 is not 0.0" in str(found(column_A="a", column_B="b").description)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Data Docs of a gate that failed by one bit and by a summary that holds markup."""
    place = tmp_path_factory.mktemp("site")
    hostile = {**SUMMARIES, "eval_summary.json": json.dumps({"b_size": 8, "note": HOSTILE}).encode()}
    a, b = write(place / "a"), write(place / "b", flip=(1, 1, "iqn_q_values"), summaries=hostile)
    assert faults(judge(compare(a, b), a, b, docs=place / "docs"), "buffers")
    return place / "docs"


def test_data_docs_say_the_verdict_and_link_each_result_whose_page_names_the_offending_buffer(site):
    listed = (site / "index.html").read_text(encoding="utf-8").rpartition("<ul>")[2]
    assert "Not shown to be the same run: the comparison is DIVERGED" in listed
    links = re.findall('href="([^"]+)"', listed)
    both = [f"{about}-{side}" for about in ("record", "environment", "files") for side in "AB"]
    files = ["eval_summary.json", "alpha_rl_train_summary.json", "diag.jsonl"]
    assert {link.split("/")[2] for link in links} == {*both, "digests", *files, "dump-train-0", "dump-train-1"}
    assert all((site / link).is_file() for link in links)
    (bad,) = [link for link in links if "dump-train-1" in link]
    page = " ".join(re.sub("<[^>]+>", " ", (site / bad).read_text(encoding="utf-8")).split())
    assert "Both sides of every buffer must have the same dtype, the same shape and the same bits" in page
    assert "phase train, step 1, k 1, buffer iqn_q_values 1 of 4 elements differ, the first at [" in page


def test_no_text_of_a_record_is_markup_in_data_docs(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert any("owned" in page for page in pages.values())
    assert [path.name for path, page in pages.items() if HOSTILE in page] == []


@pytest.mark.browser
def test_data_docs_are_read_from_a_folder_without_a_network(site, browser_program):
    """Great Expectations' own list of results is a script's, from a network; the plain one below it is not."""
    words = [browser_program, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    profile = f"--user-data-dir={site.parent / 'profile'}"
    seen = subprocess.run(
        [*words, profile, "--dump-dom", (site / "index.html").as_uri()], check=True, capture_output=True, text=True
    ).stdout
    items = [item.text for item in parsed(seen).all("li")]
    assert "buffers: dump-train-1" in items
    assert any(item.startswith("Not shown to be the same run") for item in items)


def test_the_command_writes_data_docs_and_takes_suites_of_ones_own(pair, tmp_path, capsys):
    runs = [record.path for record in pair]
    own = tmp_path / "own"
    shutil.copytree(folder(), own)
    assert here(capsys, "gate", *runs, "--docs", str(tmp_path / "docs"), "--suites", str(own))[0] == 0
    assert (tmp_path / "docs" / "index.html").is_file()
    (own / "record.json").write_text((folder() / "record.json").read_text().replace('"train",', ""))
    code, out, _ = here(capsys, "gate", *runs, "--suites", str(own), "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "FAIL")
    assert here(capsys, "gate", *runs, "--suites", str(tmp_path / "none"))[::2] == (
        2,
        f"foxflow: --suites must be a folder, got {tmp_path / 'none'}. Copy expectations/ and edit the copy.\n",
    )
    (tmp_path / "file").write_text("")
    code, _, err = here(capsys, "gate", *runs, "--docs", str(tmp_path / "file"))
    assert code == 2
    assert "--docs must name a folder that can be written" in err
