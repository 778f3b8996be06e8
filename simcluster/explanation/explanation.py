"""Why a step takes as long as it does, what its memory is made of, and which changes would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from simcluster.advice import EQUAL_TIME, Tip, gains, rank
from simcluster.analysis import MemoryVerdict
from simcluster.cluster import HardwareFigure
from simcluster.deferred_dataclass import dataclass
from simcluster.explanation.effort import FEW_EFFORT, Effort
from simcluster.explanation.memory_changes import fitting_changes
from simcluster.explanation.speed_changes import UntriedChange, tried_tips
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, run_built
from simcluster.trace import Run
from simcluster.tuning import PresentRun, Trial, Trials, trial_from_run
from simcluster.what_if import better_steps, figures_that_matter

A_FIGURE = 0.6
"""What timing a plan with another figure of the cluster takes, as a share of simulating it: it is planned."""


@dataclass(frozen=True)
class Explanation:
    """The run of a plan, what it needs, and what was tried.

    Of a plan that does not fit, ``trials`` hold for each knob the smallest change that fits, or its largest
    change if none does; then, if no knob alone is enough, several together. Of one that fits, ``tips`` hold
    what would make it faster. ``untried`` is what was left out. ``better`` has the seconds of a step with
    figures of the cluster that are 10 % better, one at a time; empty where that would take too long.
    """

    run: Run
    present: Trial
    trials: tuple[Trial, ...] = ()
    tips: tuple[Tip, ...] = ()
    untried: tuple[UntriedChange, ...] = ()
    better: Mapping[HardwareFigure, float] = field(default_factory=dict)

    @property
    def fitting(self) -> list[Trial]:
        """The trials that fit, the one that leaves most memory first."""
        return sorted((trial for trial in self.trials if trial.fits), key=lambda trial: -trial.use.left)

    @property
    def hopeless(self) -> bool:
        """Whether the plan does not fit, and nothing that was tried would."""
        return self.present.use.verdict is MemoryVerdict.DOES_NOT_FIT and not self.fitting

    @property
    def failing(self) -> list[Trial]:
        """Trials that do not fit: tight ones, those that lack memory (the least first), impossible ones."""
        return sorted((trial for trial in self.trials if not trial.fits), key=lambda trial: trial.nearness)

    @property
    def helping(self) -> list[Tip]:
        """The tips that gain something, the best first."""
        gaining = [tip for tip in self.tips if gains(self.present, tip.trial)]
        return sorted(gaining, key=lambda tip: rank(tip.trial))

    @property
    def too_large(self) -> list[Tip]:
        """The tips that would be faster if there were more memory, the fastest first."""
        faster = [
            tip
            for tip in self.tips
            if not tip.trial.refused
            and not tip.trial.fits
            and tip.trial.step < self.present.step * (1 - EQUAL_TIME)
        ]
        return sorted(faster, key=lambda tip: tip.trial.step)


def explain_scenario(
    scenario: Scenario,
    watch: Callable[[str], None] | None = None,
    *,
    thorough: bool = False,
) -> Explanation:
    """Simulates a scenario, and changes of it: if it does not fit those that save memory, else those that its
    run gives a reason for.

    It takes some seconds, or some times what simulating takes; what would take longer is left out and named,
    the same on every machine. ``thorough``: nothing is left out, however long it takes. ``watch`` is called
    with what is done next. Raises PlanError for an impossible plan.
    """
    tell = watch or (lambda doing: None)
    built = build_scenario(scenario)
    run = run_built(built)
    present = trial_from_run((), (), run)
    effort = Effort.of(built, run.documents["summary"], thorough=thorough)
    base = scenario.changed(())
    if not present.fits:
        trials = Trials(base, effort.simulate, lambda kinds: tell(f"trying {', '.join(kinds)}"))
        tried, left_out = fitting_changes(trials, run.documents["plan"])
        return Explanation(run, present, tried, untried=left_out)
    figures = figures_that_matter(built)
    took = A_FIGURE * effort.of_run(built) * len(figures)
    better: Mapping[HardwareFigure, float] = {}
    if thorough or (took <= FEW_EFFORT / 2 and effort.allows(took)):
        effort.spend(took)
        better = better_steps(built, watch=lambda figure: tell(f"trying 10 % better {figure}"))
    tips, untried = tried_tips(
        Trials(base, effort.simulate),
        PresentRun(scenario, run.documents["summary"], run.documents["plan"]),
        lambda kind, number, most: tell(f"trying {kind} ({number} of {most})"),
        thorough=thorough,
    )
    return Explanation(run, present, tips=tuple(tips), untried=tuple(untried), better=better)
