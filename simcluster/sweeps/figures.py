"""The figures of a row, by which of them plans are compared, and what is best."""

from __future__ import annotations

from collections.abc import Callable

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.plan import InferenceSpec
from simcluster.scenario import Scenario


@dataclass(frozen=True, slots=True)
class SweepFigure:
    """A figure of a row: its column, its title in tables, how a value reads, and which way is better."""

    column: str
    title: str
    reading: Callable[[float], str]
    is_less_better: bool = True

    def cost(self, value: float) -> float:
        """A value as a cost: less is better."""
        return value if self.is_less_better else -value


STEP = SweepFigure("step_time_s", "step time", units.seconds)
LATENCY = SweepFigure("latency_s", "latency", units.seconds)
FIRST_TOKEN = SweepFigure("ttft_s", "TTFT", units.seconds)
FURTHER_TOKEN = SweepFigure("tpot_s", "TPOT", units.seconds)
RATE = SweepFigure("tokens_per_s", "tokens/s", units.count, is_less_better=False)
RATE_PER_DEVICE = SweepFigure(
    "tokens_per_s_per_device", "tokens/s per device", units.count, is_less_better=False
)
SAMPLES = SweepFigure("samples_per_s", "samples/s", units.count, is_less_better=False)
MFU = SweepFigure("mfu", "MFU", units.percent, is_less_better=False)
HFU = SweepFigure("hfu", "HFU", units.percent, is_less_better=False)
BUBBLE = SweepFigure("bubble_fraction", "bubble", units.percent)
COMPUTE = SweepFigure("compute_s", "compute", units.seconds)
EXPOSED = SweepFigure("exposed_communication_s", "exposed", units.seconds)
PREFILL = SweepFigure("prefill_mfu", "prefill MFU", units.percent, is_less_better=False)
DECODE = SweepFigure("decode_mbu", "decode MBU", units.percent, is_less_better=False)
PEAK_MEMORY = SweepFigure("peak_memory_bytes", "peak memory", units.size)
MEMORY = SweepFigure("needed_memory_bytes", "memory", units.size)
"""What the fullest device needs: what it holds at its peak, and the fragments of its allocator."""

CAPACITY = SweepFigure("memory_capacity_bytes", "of", units.size, is_less_better=False)
GOODPUT = SweepFigure("goodput", "goodput", units.percent, is_less_better=False)
RANKS = SweepFigure("num_ranks", "ranks", "{:,.0f}".format)

TRAINING_FIGURES = (
    STEP,
    RATE,
    RATE_PER_DEVICE,
    SAMPLES,
    MFU,
    HFU,
    COMPUTE,
    EXPOSED,
    BUBBLE,
    PEAK_MEMORY,
    MEMORY,
    CAPACITY,
    RANKS,
)
"""The figures of a training, in the order of columns."""

INFERENCE_FIGURES = (
    FIRST_TOKEN,
    FURTHER_TOKEN,
    LATENCY,
    RATE,
    RATE_PER_DEVICE,
    SAMPLES,
    PREFILL,
    DECODE,
    PEAK_MEMORY,
    MEMORY,
    CAPACITY,
    RANKS,
)
"""The figures of an inference, in the order of columns."""

OBJECTIVES = {
    "step_time": STEP,
    "latency": LATENCY,
    "ttft": FIRST_TOKEN,
    "tpot": FURTHER_TOKEN,
    "tokens_per_s": RATE,
    "tokens_per_s_per_device": RATE_PER_DEVICE,
    "mfu": MFU,
    "goodput": GOODPUT,
    "memory": MEMORY,
}
"""What a sweep can look for, by name."""


def figures_of(scenario: Scenario) -> tuple[SweepFigure, ...]:
    """The figures that a scenario has; with a job also its goodput."""
    figures = INFERENCE_FIGURES if isinstance(scenario.spec.task, InferenceSpec) else TRAINING_FIGURES
    return figures if scenario.spec.job is None else (*figures, GOODPUT)


def objective_of(scenario: Scenario, name: str | None) -> SweepFigure:
    """The figure that a sweep of a scenario looks for: by name, else the time of a step or of an answer.

    Raises ScenarioError for one that there is not.
    """
    figures = figures_of(scenario)
    if name is None:
        return LATENCY if LATENCY in figures else STEP
    known = [known for known, figure in OBJECTIVES.items() if figure in figures]
    if name not in known:
        task = "an inference" if LATENCY in figures else "a training"
        where, hint = f"--objective {name}", nearest(name, known)
        raise ScenarioError(Problem(f"{task} has no objective '{name}'", where=where, hint=hint))
    return OBJECTIVES[name]


def time_figure(objective: SweepFigure, figures: tuple[SweepFigure, ...]) -> SweepFigure:
    """What is weighed against memory: the objective, or where that is memory the time of a step or answer."""
    if objective is not MEMORY:
        return objective
    return LATENCY if LATENCY in figures else STEP
