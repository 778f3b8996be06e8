"""The nearest changes with which a plan that needs too much memory would fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from simcluster.explanation.effort import LEFT_OUT
from simcluster.explanation.speed_changes import UntriedChange, plans_by_simulating
from simcluster.trace import RunDocument
from simcluster.tuning import Changes, OpenKnob, Trial, Trials, nearest_change, open_knobs

FEW_TURNS = 3
"""Turns of a knob that are tried in their order, not by bisection."""

_MESH = "parallel.mesh"


def fitting_changes(trials: Trials, plan: RunDocument) -> tuple[tuple[Trial, ...], tuple[UntriedChange, ...]]:
    """For each knob the smallest change that fits, or its largest change if none does; then, if no knob alone
    is enough, several together; and what ``trials`` left out. ``plan`` is the document of the plan.

    What takes longest comes last: offload, with its many copies, and what would be planned by simulating.
    """
    knobs = open_knobs(trials.scenario, plan)
    knobs.sort(key=lambda knob: (plans_by_simulating(knob.turns[0]), _offloads(knob.turns[0])))
    alone = {knob.kind: _nearest(trials, knob) for knob in knobs}
    together = () if any(trial.fits for trial in alone.values()) else _together(trials, alone)
    tried = [trial for trial in (*alone.values(), *together) if trial.refused != LEFT_OUT]
    untried = [
        UntriedChange(", ".join(trial.kinds), trial.changes, LEFT_OUT)
        for trial in (*alone.values(), *together)
        if trial.refused == LEFT_OUT
    ]
    return tuple(tried), tuple(untried)


def _nearest(trials: Trials, knob: OpenKnob) -> Trial:
    """The smallest turn of a knob that fits, else the largest possible one; of few turns the smallest first:
    it takes least. The first that is left out ends them.
    """
    if len(knob.turns) > FEW_TURNS:
        return nearest_change(trials, knob)
    best = None
    for changes in knob.turns:
        trial = trials.run((knob.kind,), changes)
        if trial.fits or trial.refused == LEFT_OUT:
            return trial
        if best is None or not trial.refused:
            best = trial
    assert best is not None
    return best


def _offloads(changes: Changes) -> bool:
    return any(key.startswith("parallel.offload") for key, _ in changes)


def _together(trials: Trials, alone: Mapping[str, Trial]) -> tuple[Trial, ...]:
    """As few knobs as are enough, each as far as it was turned; of those that set the same key, the best.

    All of them come first: if they are not enough, no fewer are.
    """
    best: dict[tuple[str, ...], tuple[str, Trial]] = {}
    for name, trial in alone.items():
        keys = tuple(key for key, _ in trial.changes)
        keys = (_MESH,) if _MESH in keys else keys  # with what the plan needs on that mesh
        if not trial.refused and (keys not in best or trial.nearness < best[keys][1].nearness):
            best[keys] = (name, trial)
    able = dict(best.values())
    if len(able) < 2:
        return ()
    every = _tried(trials, tuple(able), able)
    if not every.fits and (not every.refused or every.refused == LEFT_OUT):
        return (every,)
    for count in range(2, len(able)):
        tried = [_tried(trials, names, able) for names in combinations(able, count)]
        if any(trial.fits for trial in tried):
            return tuple(tried)
        if left_out := [trial for trial in tried if trial.refused == LEFT_OUT]:
            return (every, *left_out)
    return (every,)


def _tried(trials: Trials, names: Sequence[str], able: Mapping[str, Trial]) -> Trial:
    return trials.run(names, tuple(change for name in names for change in able[name].changes))
