"""Tips for a plan: which its run gives a reason for, what each gains, and what they gain together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from simcluster.advise.combination import gains, rank, together
from simcluster.advise.tip_trials import TipTrials
from simcluster.analysis import MemoryVerdict
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.tuning import OpenKnob, PresentRun, ReasonedKnob, Trial, reasoned_knobs, trial_from_run


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

    ``best`` is ``present`` where no tip gains anything.
    """

    name: str
    present_run: PresentRun
    present: Trial
    tips: tuple[Tip, ...]
    best: Trial

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
        trials = (self.best, *(tip.trial for tip in self.tips))
        return self.present.use.verdict is MemoryVerdict.DOES_NOT_FIT and not any(
            trial.fits for trial in trials
        )


def advise_scenario(
    scenario: Scenario, executor: Executor, watch: Callable[[int, int], None] | None = None
) -> Advice:
    """Simulates a scenario, tries what its run gives a reason for, and puts together what gains.

    ``watch`` is called with how many trials have ended, and how many there are as far as is known. Raises
    PlanError for an impossible plan, BrokenExecutor where the executor takes no more calls.
    """
    run = simulate(scenario)
    present_run = PresentRun(scenario, run.documents["summary"], run.documents["plan"])
    present = trial_from_run((), (), run)
    wanted = _single_trials(reasoned_knobs(present_run))
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


def _single_trials(reasoned: list[ReasonedKnob]) -> list[tuple[ReasonedKnob, OpenKnob]]:
    """The knobs, those of which every turn is to be tried by turns; what two of them change alike once."""
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
