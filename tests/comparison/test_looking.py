"""Looking at one buffer of one record."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from cli.commanding import here
from track.small_record import BUFFERS, STEPS, data_of, write

from foxflow.comparison.elements import numbers
from foxflow.comparison.looking import groups, look
from foxflow.digest import digest
from foxflow.errors import Mistake
from foxflow.flow import TRAIN, Captured, Step
from foxflow.record import Writer, open_record


def one(tmp_path, dtype, shape, data, *, told=None):
    """What is seen of a record of one dumped buffer; `told` is a digest other than its own."""
    from track.small_record import MANIFEST

    buffer = Captured(
        k=None, order=0, group="G", buffer="x", dtype=dtype, shape=shape, nbytes=len(data),
        digest=told or digest(data, dtype, shape), data=data,
    )  # fmt: skip
    with Writer(tmp_path / "r", manifest=MANIFEST) as writer:
        writer.write(Step(step=0, phase=TRAIN, buffers=(buffer,)))
    (sight,) = look(open_record(tmp_path / "r"), "x")
    return sight.values


def test_every_capture_is_seen_in_order_and_the_dumped_ones_with_their_values(tmp_path):
    record = write(tmp_path / "r")
    seen = list(look(record, "iqn_q_values"))
    assert [(s.step, s.k) for s in seen] == [(step, k) for step in range(STEPS) for k in (0, 1)]
    assert [s.values is not None for s in seen] == [True] * 4 + [False] * 4
    wanted = np.frombuffer(data_of(1, 1, "iqn_q_values"), "<f4").astype(np.float64)
    finite = wanted[np.isfinite(wanted)]
    values = seen[3].values
    assert (values.elements, values.smallest, values.largest) == (4, finite.min(), finite.max())
    assert values.sound
    assert seen[3].digest == digest(data_of(1, 1, "iqn_q_values"), "f32", (4,))


def test_the_buffers_are_listed_by_group_with_their_captures(tmp_path):
    assert groups(write(tmp_path / "r")) == {
        "K": {"outcome_w": STEPS},
        "H": {"iqn_q_values": 2 * STEPS},
        "R": {"loss_total": STEPS + 1},
    }


def test_an_incomplete_record_is_seen_as_far_as_it_reaches(tmp_path):
    assert one(tmp_path, "u8", (2,), b"\0\7").largest == 7


def test_a_buffer_that_is_not_there_is_refused_and_like_ones_are_named(tmp_path):
    with pytest.raises(Mistake, match=r"must be a buffer of the record, got Q_VALUES\. Names like it: iqn_q_values"):
        list(look(write(tmp_path / "r"), "Q_VALUES"))


def test_values_that_are_not_finite_and_zeros_are_counted_and_stand_apart_in_the_picture(tmp_path):
    data = struct.pack("<6f", 0.0, -0.0, float("nan"), float("inf"), 1.0, 3.0)
    values = one(tmp_path, "f32", (2, 3), data)
    assert (values.nonfinite, values.zeros, values.smallest, values.largest) == (2, 2, 0.0, 3.0)
    assert values.picture == ("  !", "!-@")


def test_a_gradient_of_values_is_a_gradient_of_shades(tmp_path):
    values = one(tmp_path, "f32", (10,), np.arange(10, dtype="<f4").tobytes())
    assert values.picture == (" .:-=+*#%@",)


def test_a_large_buffer_fits_into_the_picture(tmp_path):
    values = one(tmp_path, "f32", (300, 4, 700), np.arange(840_000, dtype="<f4").tobytes())
    assert (len(values.picture), {len(row) for row in values.picture}) == (8, {64})


@pytest.mark.parametrize(("shape", "picture"), [((0, 4), ()), ((), ("+",)), ((3,), ("+++",))])
def test_nothing_a_scalar_and_equal_values_have_a_picture(tmp_path, shape, picture):
    data = struct.pack("<f", 1e-45) * int(np.prod(shape))
    assert one(tmp_path, "f32", shape, data).picture == picture


def test_the_widest_range_of_floats_does_not_overflow(tmp_path):
    values = one(tmp_path, "f64", (3,), struct.pack("<3d", -1.7e308, 0.0, 1.7e308))
    assert values.picture == (" +@",)


@pytest.mark.parametrize(
    ("dtype", "data", "wanted"),
    [
        ("i8", b"\xff\x7f", [-1, 127]),
        ("u16", b"\xff\xff", [65535]),
        ("bool", b"\0\1", [0, 1]),
        ("bf16", b"\x80\x3f", [1.0]),
        ("f16", b"\x00\xbc", [-1.0]),
        ("f8_e5m2", b"\x3c", [1.0]),
        ("c64", struct.pack("<2f", 1.5, -2.0), [1.5, -2.0]),
    ],
)
def test_every_kind_of_element_is_read_as_its_number(dtype, data, wanted):
    size = len(data) // (len(wanted) if dtype != "c64" else 1)
    assert numbers(dtype, np.frombuffer(data, np.uint8).reshape(-1, size)).tolist() == wanted


def test_show_prints_shape_digest_statistics_and_picture(tmp_path, capsys):
    record = write(tmp_path / "r")
    code, out, _ = here(capsys, "show", record.path, "outcome_w", "--steps", "1:3")
    first, facts, picture, later = out.splitlines()
    assert code == 0
    assert first.split() == ["train", "1", "f32", "[4]", digest(data_of(1, None, "outcome_w"), "f32", (4,))]
    assert facts.startswith("  4 elements  min ")
    assert len(picture) == len("  |") + 4
    assert later.split()[:4] == ["train", "2", "f32", "[4]"]


def test_show_lists_the_buffers_of_a_run_and_is_json_on_demand(tmp_path, capsys):
    record = write(tmp_path / "r")
    assert [line.split()[0] for line in here(capsys, "show", record.path)[1].splitlines()] == [
        word for group, buffer in {(group, buffer): 0 for group, buffer, _ in BUFFERS} for word in ("group", buffer)
    ]
    code, out, _ = here(capsys, "show", record.path, "loss_total", "--json")
    captures = json.loads(out)["captures"]
    assert (code, len(captures), captures[-1]["phase"]) == (0, STEPS + 1, "eval")


@pytest.mark.parametrize("steps", ["3", "4:4", "a:b", "-1:2"])
def test_steps_that_are_no_range_are_refused(tmp_path, capsys, steps):
    code, _, err = here(capsys, "show", write(tmp_path / "r").path, "loss_total", f"--steps={steps}")
    assert (code, "--steps must be FIRST:END" in err) == (2, True)


def test_bytes_that_do_not_match_their_digest_are_called_corrupt(tmp_path, capsys):
    values = one(tmp_path, "u8", (2,), b"\0\7", told="fx1:" + "0" * 32)
    assert not values.sound
    assert "CORRUPT" in here(capsys, "show", str(tmp_path / "r"), "x")[1]
