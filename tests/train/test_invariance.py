"""What a run's bits do not depend on: where it stops, what is dumped, how many threads; and what they do depend on."""

from __future__ import annotations

import json

from bits import fresh_process
from train.running import EVERYTHING, NO_DUMPS, TINY, at, differing, places, tiny, trainer

from foxflow import flow
from foxflow.train.dataflow import buffers


def without_time(diag: str | None) -> dict[str, object]:
    line = json.loads(diag or "{}")
    assert list(line)[-1] == "elapsed_s"
    return {key: value for key, value in line.items() if key != "elapsed_s"}


def test_stopping_early_changes_no_earlier_step() -> None:
    whole = list(trainer().run())
    cut = list(trainer().run(stop_at=5))
    assert [(s.phase, s.step) for s in cut] == [(flow.TRAIN, t) for t in range(5)]
    assert [list(s.buffers) for s in cut] == [list(s.buffers) for s in whole[:5]]
    assert [without_time(s.diag) for s in cut] == [without_time(s.diag) for s in whole[:5]]


def test_fewer_steps_are_another_schedule_unlike_stopping_early() -> None:
    """The twin of the test above: per_beta rises with the share of the steps that are done."""
    short, whole = (places(trainer(tiny(steps=n, eval_steps=0)).run(stop_at=3)) for n in (4, 12))
    found = {(t, name) for _, t, name, _ in differing(short, whole)}
    assert min(found)[0] == 2
    assert (2, "isv") in found


def test_dumps_change_no_digest() -> None:
    full, bare = (places(trainer(recording=r).run()) for r in (EVERYTHING, NO_DUMPS))
    states = {place for place in full if place[2] in ("mamba_a_state", "mamba_b_state")}
    assert full.keys() - states == bare.keys()
    assert {place: full[place].digest for place in bare} == {place: b.digest for place, b in bare.items()}


def test_seeds_differ_in_weights_streams_world_and_tape() -> None:
    a, b = (places(trainer(tiny(seed=seed, steps=1, eval_steps=0)).run()) for seed in (42, 43))
    found = at(differing(a, b), 0, {b.name for b in buffers(TINY)})
    assert {"w_trunk.vsn_w", "w_q_w", "outcome_w", "wt_v_w", "lob_cursor", "tape_book", "obs"} <= found
    assert {"act_prng_state", "per_prng_state", "iqn_prng_state"} <= found


FINGERPRINT = """
import tempfile
from dataclasses import asdict
import torch
from train.running import wide
from foxflow.config import DUMP_FLAGS, Recording
from foxflow.market.simulate import synthetic
from foxflow.record import Writer
from foxflow.train.trainer import Trainer
torch.set_num_threads({threads})
config = wide(seed=42, steps=3, eval_steps=1)
recording = Recording(dump_groups={groups!r}, dump_steps=(0, 2), dump_k={dump_k})
trainer = Trainer(config, recording, synthetic(42, 400, config.shape.L), torch.device("cpu"))
facts = dict.fromkeys(("source", "data", "dataflow", "environment", "arithmetic", "command"), "")
capture = {{"names": list(trainer.plan.names()), "thinned": False}}
manifest = facts | {{"seed": 42, "config": config.as_dict(), "capture": capture}}
with tempfile.TemporaryDirectory() as folder, Writer(folder, manifest=manifest) as writer:
    for step in trainer.run():
        writer.write(step)
    print(torch.get_num_threads(), writer.fingerprint())
"""


def test_threads_and_dumps_have_no_part_in_the_fingerprint() -> None:
    """One thread without dumps and two threads with all of them, in fresh processes."""
    one = fresh_process(FINGERPRINT.format(threads=1, groups="", dump_k=False)).split()
    two = fresh_process(FINGERPRINT.format(threads=2, groups="ABCDEFGHIJKLMORWX", dump_k=True)).split()
    assert (one[0], two[0]) == ("1", "2")
    assert one[1].startswith("fx1:")
    assert one[1] == two[1]
