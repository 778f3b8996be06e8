"""Tips for a plan: which its run gives a reason for, what each gains, and what they gain together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from simcluster.advice.combination import after, gains, rank, together
from simcluster.advice.tip_trials import TipTrials
from simcluster.analysis import MemoryVerdict
from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.tuning import (
    Changes,
    OpenKnob,
    PresentRun,
    ReasonedKnob,
    Trial,
    reasoned_knobs,
    trial_from_run,
)

ROUNDS = 2
"""Rounds of advice unless more are asked for: the bottleneck of the plan, and the next one."""


@dataclass(frozen=True, slots=True)
class Tip:
    """A change that was tried, why the run asks for it, and who advises so."""

    kind: str
    why: str
    source: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class Advice:
    """A plan's run as it is, the tips that were tried, and what gains put together.

    ``best`` is ``present`` where no tip gains anything. ``following`` is the advice for the plan with what
    gains: another bottleneck may be left then. None where nothing was tried on it.
    """

    name: str
    present_run: PresentRun
    present: Trial
    tips: tuple[Tip, ...]
    best: Trial
    following: Advice | None = None

    @property
    def rounds(self) -> list[Advice]:
        """It and all that follow."""
        return [self, *(self.following.rounds if self.following is not None else [])]

    @property
    def final(self) -> Trial:
        """The best of all rounds."""
        return self.rounds[-1].best

    @property
    def changes(self) -> Changes:
        """What all rounds change together; later ones replace what earlier ones say of the same keys."""
        made: Changes = ()
        for advice in self.rounds:
            if advice.best is not advice.present:
                made = after(made, advice.best.changes)
        return made

    @property
    def gaining(self) -> list[Tip]:
        """The tips that gain something, the best first."""
        return sorted(
            (tip for tip in self.tips if gains(self.present, tip.trial)), key=lambda tip: rank(tip.trial)
        )

    @property
    def idle(self) -> list[Tip]:
        """The tips that gain nothing, the best first."""
        return sorted(
            (tip for tip in self.tips if not (tip.trial.refused or gains(self.present, tip.trial))),
            key=lambda tip: rank(tip.trial),
        )

    @property
    def impossible(self) -> list[Tip]:
        """The tips that no plan can be made of."""
        return [tip for tip in self.tips if tip.trial.refused]

    @property
    def hopeless(self) -> bool:
        """Whether the plan does not fit, and no tip, nor all that gain together, makes it fit."""
        if self.present.use.verdict is not MemoryVerdict.DOES_NOT_FIT:
            return False
        trials = (self.best, *(tip.trial for tip in self.tips))
        later = self.following is None or self.following.hopeless
        return later and not any(trial.fits for trial in trials)


def advise_scenario(
    scenario: Scenario,
    executor: Executor,
    watch: Callable[[int, int], None] | None = None,
    *,
    rounds: int = ROUNDS,
) -> Advice:
    """Simulates a scenario, tries what its run gives a reason for, and puts together what gains.

    Then the same of the plan with all that, for so many rounds at most, until nothing gains. ``watch`` is
    called with how many trials of a round have ended, and how many there are as far as is known. Raises
    PlanError for an impossible plan, BrokenExecutor where the executor takes no more calls.
    """
    advice = _round(scenario, executor, watch)
    if rounds == 1 or advice.best is advice.present:
        return advice
    # What changes a key again is read by the plan as it is then: no two changes of one key meet.
    changed = scenario.changed(advice.best.changes)
    return replace(advice, following=advise_scenario(changed, executor, watch, rounds=rounds - 1))


def _round(scenario: Scenario, executor: Executor, watch: Callable[[int, int], None] | None) -> Advice:
    run = simulate(scenario)
    present_run = PresentRun(scenario, run.documents["summary"], run.documents["plan"])
    present = trial_from_run((), (), run)
    wanted = changes_to_try(reasoned_knobs(present_run))
    # A scenario that nothing was asked of: its cluster, once it is built, cannot be sent to a process.
    trials = TipTrials(scenario.changed(()), executor)
    if watch is not None:
        trials.watch = lambda ended: watch(ended, max(ended, len(wanted)))
    ended = trials.run_all((knob, reasoned.nearest) for reasoned, knob in wanted)
    tips = tuple(
        Tip(reasoned.knob.kind, reasoned.why, reasoned.source, trial)
        for (reasoned, _), trial in zip(wanted, ended, strict=True)
    )
    best = together(present, (tip.trial for tip in tips), trials.run)
    return Advice(scenario.name, present_run, present, tips, best)


def changes_to_try(reasoned: Sequence[ReasonedKnob]) -> list[tuple[ReasonedKnob, OpenKnob]]:
    """The changes that are tried one by one, each with the knob and the reason it comes from.

    A knob of which only the smallest change that suffices is wanted stays whole; a change that two knobs
    propose is tried once.
    """
    wanted: list[tuple[ReasonedKnob, OpenKnob]] = []
    known = set()
    for entry in reasoned:
        if entry.nearest:
            wanted.append((entry, entry.knob))
            continue
        for changes in entry.knob.turns:
            if frozenset(changes) not in known:
                known.add(frozenset(changes))
                wanted.append((entry, OpenKnob(entry.knob.kind, (changes,))))
    return wanted
