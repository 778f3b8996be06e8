"""Changes that would make a step faster, those about its largest losses first, as many as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simcluster.advice import Tip, single_trials
from simcluster.tuning import Changes, OpenKnob, PresentRun, ReasonedKnob, Trials, reasoned_knobs

MOST_TRIALS = 12
"""Changes that are tried at most, unless all are asked for."""

FEW_ENTRIES = 100_000
"""Entries of streams up to which an explanation may take ``PATIENCE`` seconds; beyond it, so many times what
simulating the plan took.
"""
PATIENCE, TIMES = 5.0, 3.0

RESERVE = 0.15
"""The share of that time which is left for everything else."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an explanation has to be done: ``limit`` seconds after it ``began``; None: when it is.

    Seconds are those of the processor: what else a machine does decides nothing.
    """

    began: float
    limit: float | None

    @classmethod
    def of(cls, began: float, took: float, entries: int) -> Deadline:
        """That of a plan whose simulation ``took`` so many seconds and ran so many entries."""
        return cls(began, PATIENCE if entries <= FEW_ENTRIES else TIMES * took)

    def leaves(self, seconds: float) -> bool:
        """Whether so much time is left."""
        if self.limit is None:
            return True
        return time.process_time() - self.began + seconds <= self.limit * (1 - RESERVE)


@dataclass(frozen=True, slots=True)
class UntriedChange:
    """A change that the run gives a reason for and nobody tried, and why not."""

    kind: str
    changes: Changes
    why: str


def tried_tips(
    trials: Trials,
    present: PresentRun,
    deadline: Deadline,
    took: float,
    watch: Callable[[str, int, int], None] | None = None,
) -> tuple[list[Tip], list[UntriedChange]]:
    """The changes that a run gives a reason for: those that were tried, and those left out.

    First of every knob its first turn, the knob about the largest loss first, then the second turns, and so
    on. Changes that would be planned by simulating take long: they are left to ``advise``, and so is what
    there is no time for. ``took`` is about how many seconds a trial takes. ``watch`` is called before each
    with its kind, its number, and how many there are at most.
    """
    wanted = _in_order(reasoned_knobs(present))
    tips: list[Tip] = []
    untried: list[UntriedChange] = []
    longest = took
    for reasoned, knob in wanted:
        why = ""
        if deadline.limit is not None:
            if plans_by_simulating(knob.turns[0]):
                why = "it is planned by simulating"
            elif len(tips) == MOST_TRIALS:
                why = f"{MOST_TRIALS} others were tried"
            elif not deadline.leaves(longest):
                why = "no time was left"
        if why:
            untried.append(UntriedChange(knob.kind, knob.turns[0], why))
            continue
        if watch is not None:
            watch(knob.kind, len(tips) + 1, min(len(wanted), MOST_TRIALS))
        began = time.process_time()
        trial = trials.run((knob.kind,), knob.turns[0])
        longest = max(longest, time.process_time() - began)
        tips.append(Tip(knob.kind, reasoned.why, reasoned.source, trial))
    return tips, untried


def plans_by_simulating(changes: Changes) -> bool:
    """Whether a plan with these changes is itself found by simulating others."""
    return any("search" in text or text == "auto" for _, text in changes)


def _changes_the_mesh(changes: Changes) -> bool:
    """Whether they make it another plan: of knobs about equal losses those come last."""
    return any(key.startswith("parallel.mesh") for key, _ in changes)


def _in_order(reasoned: Sequence[ReasonedKnob]) -> list[tuple[ReasonedKnob, OpenKnob]]:
    """Every turn of every knob, in the order of trials."""
    by_stake = sorted(reasoned, key=lambda entry: (-entry.stake, _changes_the_mesh(entry.knob.turns[0])))
    turns = [(entry, knob) for entry, knob in single_trials(by_stake) if not entry.nearest]
    count: dict[str, int] = {}
    numbered = []
    for place, (entry, knob) in enumerate(turns):
        count[knob.kind] = count.get(knob.kind, 0) + 1
        numbered.append((count[knob.kind], place, entry, knob))
    return [(entry, knob) for _, _, entry, knob in sorted(numbered, key=lambda row: row[:2])]
