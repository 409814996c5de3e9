"""What the verdict tables need of the trainer, broken on purpose: then the stated cell of the table breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from train import breaks
from train.running import TINY, Place, differing, places
from train.verdicts import (
    GROUP,
    IQN,
    MIXED,
    ONLINE,
    OUTCOME,
    STEPS,
    Departure,
    Launch,
    config,
    departures,
    made,
    pairs,
    struck,
)

from foxflow import flow
from foxflow.train.trainer import Trainer


@dataclass(frozen=True)
class Break:
    """A condition by its number, what breaks it, and the cells of the table that then no longer hold."""

    condition: int
    specimen: str
    by: Callable[[Trainer], None] | type[Trainer]
    cells: dict[tuple[int, str], set[str] | frozenset[str]]
    """Step and group -> buffers that differ there though they should not, or the other way round."""
    torn: frozenset[Launch] = ONLINE
    """The launches of which one must have been torn, for the cells to show it."""

    def trainer(self) -> Trainer:
        """The race needs the default sizes to strike, the unseeded head does not."""
        of = config((self.specimen,), shape=None if self.specimen == IQN else TINY)
        if isinstance(self.by, type):
            return made(of, kind=self.by)
        trainer = made(of)
        self.by(trainer)
        return trainer

    def found(self) -> set[Place]:
        steps = 1 + max((t for t, _ in self.cells), default=STEPS - 1)
        return struck(self.trainer, steps, self.torn) if self.specimen == IQN else next(pairs(self.trainer, steps))

    def departed(self) -> list[Departure]:
        return departures(self.found(), (self.specimen,))


FIRST, LAST = (frozenset({("iqn_cos", k)}) for k in (0, TINY.K - 1))
FIRST_TARGET = frozenset({("iqn_cos_target", 0)})
WITHOUT_IQN = GROUP["H"] - {"iqn_q_values"}

BREAKS = [
    Break(
        1, IQN, breaks.iqn_sends_its_gradient_on, {(0, "J"): {"grad_h_t_combined"}, (0, "I"): {"cfc_grad_b_scratch"}}
    ),
    Break(1, IQN, breaks.ActsByIqn, {(1, "C"): {"log_pi"}, (1, "G"): {"sampled_log_pi_old"}}),
    Break(1, IQN, breaks.priorities_come_from_iqn, {(0, "B"): {"per_leaf"}, (0, "G"): {"sampled_h_t"}}, FIRST),
    Break(
        2, IQN, breaks.learning(breaks.OneNorm), {(1, "W"): {"w_trunk.in_w", "w_trunk.cfc_w_in"}, (1, "H"): WITHOUT_IQN}
    ),
    Break(2, IQN, breaks.HeedsTheLoss, {(1, "E"): {"isv"}}, LAST),
    Break(3, IQN, breaks.the_state_takes_in_what_was_drawn, {(0, "C"): {"iqn_prng_state"}}, FIRST),
    Break(
        3,
        IQN,
        breaks.the_draw_shares_the_racing_state,
        {(0, "C"): {"per_prng_state"}, (1, "G"): {"sampled_h_t"}},
        FIRST,
    ),
    Break(
        3,
        IQN,
        breaks.dueling_learns_from_iqns_target,
        {(1, "H"): {"dueling_q_composed"}, (1, "W"): {"w_dueling.a_w"}},
        FIRST_TARGET,
    ),
    Break(4, OUTCOME, breaks.adam_steps_in_every_iteration, {(2, "G"): {"sampled_h_t"}, (2, "H"): GROUP["H"]}),
    Break(5, OUTCOME, breaks.no_latency, {(1, "I"): GROUP["I"], (1, "J"): MIXED}),
    Break(5, OUTCOME, breaks.labels_are_written_after_the_inner_loop, {(2, "I"): GROUP["I"], (2, "J"): MIXED}),
    Break(6, OUTCOME, breaks.masked_rows_are_zero_times_a_weight, {(0, "J"): {"grad_h_t_outcome"}}),
    Break(6, OUTCOME, breaks.learning(breaks.NoEpsilon), {(1, "K"): {"outcome_w"}}),
    Break(
        7, OUTCOME, breaks.rows_are_labelled_when_they_are_inserted, {(0, "I"): {"cfc_grad_b_scratch"}, (0, "J"): MIXED}
    ),
    Break(7, OUTCOME, breaks.a_label_is_read_off_a_prediction, {(0, "K"): {"outcome_labels"}}),
    Break(8, OUTCOME, breaks.no_carry_is_stored, {(2, "I"): {"cfc_grad_w_rec_scratch"}}),
]
DORMANT = [
    Break(4, OUTCOME, breaks.the_last_iteration_alone_is_kept, {}),
    Break(6, OUTCOME, breaks.learning(breaks.Decays), {}),
]
SOUND = Break(0, OUTCOME, lambda _: None, {})


def named(broken: Break) -> str:
    by = getattr(broken.by, "__name__", "")
    return f"{broken.condition}-{by}" if by != "change" else f"{broken.condition}-learner"


@pytest.mark.parametrize("broken", BREAKS, ids=named)
def test_a_broken_condition_breaks_its_cell(broken: Break) -> None:
    seen = {(d.step, d.group): d.missing | d.unexpected for d in broken.departed()}
    assert {cell: names - seen.get(cell, frozenset()) for cell, names in broken.cells.items()} == {
        cell: set() for cell in broken.cells
    }


def test_every_condition_is_broken_once_at_least() -> None:
    assert {broken.condition for broken in BREAKS} == set(range(1, 9))


def test_the_trainer_as_it_is_departs_nowhere_at_the_tiny_sizes_either() -> None:
    assert SOUND.departed() == []


@pytest.mark.parametrize("broken", DORMANT, ids=named)
def test_a_change_on_which_no_cell_depends_breaks_none(broken: Break) -> None:
    """Every iteration of step 2 draws a labelled row, and what decays differs as before."""
    assert broken.departed() == []
    sound, changed = (places(b.trainer().run(stop_at=STEPS)) for b in (SOUND, broken))
    assert (flow.TRAIN, STEPS - 1, "w_trunk.in_w", None) in differing(sound, changed)


def test_an_evaluation_that_acts_by_iqn_is_reached_by_the_race() -> None:
    of = config((IQN,), steps=1, eval_steps=1)
    found = struck(lambda: made(of, kind=breaks.ActsByIqn), 1)
    assert (flow.EVAL, 1, "roll_pi_logits", None) in found
