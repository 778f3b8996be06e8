"""verify: a small form of a plan run on values, compared with the same mathematics on one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.garbage import no_collection
from simcluster.model import E2M1, E4M3, E5M2, Generative, Model, padded, vocabulary_of
from simcluster.plan import Plan
from simcluster.printable import printable_text
from simcluster.program import Program
from simcluster.report import verification_html, verification_text
from simcluster.scenario import Scenario
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.verification.value_run import (
    ShrunkPlan,
    oracle_of,
    replay_plan,
    samples_of_workers,
)
from simcluster.values import (
    GenerationOracle,
    RecordedUpdates,
    Replay,
    SeededData,
    TensorComparison,
    ValueTolerance,
    compare_generated,
    compare_training,
    oracles_of_workers,
)
from simcluster.work import DType

STEPS = 2
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}


@dataclass(frozen=True, repr=False)
class Verification:
    """What verify found.

    It is true if every rank computed what one device computes, else false: ``assert simcluster.verify(...)``.
    ``check`` raises then, ``print`` shows the table of what was compared.
    """

    name: str
    """What the scenario is called."""
    dtype: str
    """The format of all values."""
    num_ranks: int
    """Ranks of the small plan."""
    changes: tuple[tuple[str, str, str], ...]
    """How the plan was shrunk: what, before, after."""
    comparisons: tuple[TensorComparison, ...]
    """Every tensor of every step."""
    fault: str = ""
    """The fault that stopped it, if any."""
    steps: int = STEPS
    """Steps that were run."""
    tolerance: float = TOLERANCES["float64"]
    """The relative error that was accepted."""
    staleness: tuple[int, ...] = ()
    """Of parameter servers that update for each worker by itself: how many updates came 0, 1, ... updates of
    others behind the pull of the weights that their gradients were made with."""

    @property
    def agrees(self) -> bool:
        """Whether every rank computed what one device computes."""
        return (
            not self.fault
            and bool(self.comparisons)
            and all(comparison.agrees for comparison in self.comparisons)
        )

    def __bool__(self) -> bool:
        return self.agrees

    def check(self) -> None:
        """Raises SimulationError, with the first difference or the fault, unless every rank agrees."""
        if not self.agrees:
            raise SimulationError(f"{self.name} differs from one device: {self._why}")

    @property
    def _why(self) -> str:
        """The first difference, or what kept values from being compared."""
        first = self.first_difference
        return self.fault or (str(first) if first is not None else "nothing was compared")

    def __repr__(self) -> str:
        ranks = f"{self.num_ranks} {'rank' if self.num_ranks == 1 else 'ranks'}, {self.dtype}"
        if self.agrees:
            return printable_text(f"Verification: {self.name} agrees with one device ({ranks})")
        return printable_text(f"Verification: {self.name} DIFFERS from one device ({ranks}): {self._why}")

    def __str__(self) -> str:
        return verification_text(self.document())

    def _repr_html_(self) -> str:
        return verification_html(self.document())

    def document(self) -> dict[str, Any]:
        """The verification as JSON-able data."""
        return {
            "name": self.name,
            "agrees": self.agrees,
            "dtype": self.dtype,
            "tolerance": self.tolerance,
            "ranks": self.num_ranks,
            "steps": self.steps,
            "changes": [list(change) for change in self.changes],
            "comparisons": [
                {
                    "step": comparison.step,
                    "what": comparison.what,
                    "name": comparison.name,
                    "error": comparison.error,
                    "ranks": list(comparison.ranks),
                }
                for comparison in self.comparisons
            ],
            "fault": self.fault,
            **({"staleness": list(self.staleness)} if self.staleness else {}),
        }

    @property
    def first_difference(self) -> TensorComparison | None:
        """The first tensor that differs, in the order loss, gradients, updates of each step."""
        return next((comparison for comparison in self.comparisons if not comparison.agrees), None)


def verify(scenario: Scenario, *, dtype: Literal["float64", "float32"] = "float64") -> Verification:
    """Runs the small form of a scenario for two steps in values and compares it with one device.

    Loss, every gradient and every updated parameter are compared norm-wise (float64 1e-9, float32 1e-4).
    Raises what planning raises; a wrong value is a result, not an error.
    """
    return verify_plan(scenario, plan_scenario(scenario), dtype)


def verify_plan(
    scenario: Scenario, large: Plan, dtype: Literal["float64", "float32"] = "float64"
) -> Verification:
    """The same for a scenario whose plan was made."""
    made = ShrunkPlan.of(scenario, large)
    small, plan = made.shrunk, made.plan
    spec = small.scenario.spec
    comparisons, fault, stale = _compared(plan, small.cluster, dtype, spec.run.seed, None, small.model)
    changes = (*small.changes, *_formats(plan, dtype))
    steps = 1 if plan.pipeline.generation else STEPS
    ranks, tolerance = plan.mesh.num_ranks, TOLERANCES[dtype]
    counts = tuple(np.bincount(stale).tolist()) if stale else ()
    return Verification(
        scenario.name, dtype, ranks, changes, tuple(comparisons), fault, steps, tolerance, counts
    )


def _formats(plan: Plan, dtype: str) -> Iterator[tuple[str, str, str]]:
    """What becomes of number formats that values do not have."""
    if plan.numerics.matmul is DType.FP8:
        bits = f"{E4M3} and {E5M2} significant bits, any exponent"
        yield "casts to fp8", "E4M3 and E5M2, scaled", bits if dtype == "float64" else "copies"
    if plan.numerics.matmul is DType.MXFP8:
        bits = f"{E4M3} significant bits, any exponent"
        yield "casts to mxfp8", "E4M3, blocks of 32 scaled", bits if dtype == "float64" else "copies"
    if plan.numerics.matmul is DType.NVFP4:
        bits = f"{E2M1} significant bits, any exponent"
        yield "casts to nvfp4", "E2M1, blocks of 16 scaled", bits if dtype == "float64" else "copies"
    for state, kept in plan.optimizer.states.items() if plan.optimizer else ():
        if kept is not DType.FP32:
            yield state, str(kept), dtype


def compare_values(
    plan: Plan,
    cluster: Cluster,
    dtype: str,
    seed: int,
    program: Program | None = None,
    model: Model | None = None,
) -> tuple[Sequence[TensorComparison], str]:
    """The comparisons of a plan run in values, and the fault that stopped it or nothing.

    ``program`` is what is run, if it is there already or is to be another one than the plan's. ``model`` is
    what one device generates with; a plan that trains has all that is needed in its logical graph.
    """
    comparisons, fault, _ = _compared(plan, cluster, dtype, seed, program, model)
    return comparisons, fault


@no_collection()
def _compared(
    plan: Plan, cluster: Cluster, dtype: str, seed: int, program: Program | None, model: Model | None
) -> tuple[Sequence[TensorComparison], str, Sequence[int]]:
    """Comparisons, the fault, and the staleness of every update of servers for a worker by itself."""
    steps = 1 if plan.pipeline.generation else STEPS
    source = SeededData(seed, np.dtype(dtype))
    try:
        replay = replay_plan(plan, cluster, source, steps, program)
    except SimulationError as error:
        return (), str(error), ()
    tolerance = ValueTolerance.of(dtype, TOLERANCES[dtype])
    if plan.optimizer is None:
        assert model is not None, "one device generates with a model"
        return compare_generation(plan, model, replay, source, tolerance), "", ()
    oracle, rules = oracle_of(plan, source), plan.optimizer.rules
    if plan.servers is None or plan.servers.is_synchronous:
        return compare_training(replay, oracle.run(STEPS), rules, tolerance), "", ()
    # Every worker has other weights: one device takes what was pulled and updated as it was.
    recorded = RecordedUpdates(oracles_of_workers(oracle, samples_of_workers(plan)), replay.updates)
    staleness = [update.staleness for update in replay.updates]
    return compare_training(replay, recorded.run(STEPS), rules, tolerance), "", staleness


def compare_generation(
    plan: Plan, model: Model, replay: Replay, source: SeededData, tolerance: ValueTolerance
) -> list[TensorComparison]:
    """Logits and tokens against those of one device without a cache."""
    asked = plan.pipeline.generation
    assert asked is not None and len(asked.steps) + 1 == asked.tokens, "every token is generated"
    assert isinstance(model, Generative)
    one = padded(model.without_dropout, plan.vocab)
    batch = plan.pipeline.micro_batch * plan.placement.batch_ways
    oracle = GenerationOracle(
        lambda length: one.graph(batch, length, plan.numerics.compute, 1),
        source,
        asked.prompt,
        asked.tokens,
        vocabulary_of(model),
    )
    expected = [list(oracle.run(micro_batch)) for micro_batch in range(plan.num_micro_batches)]
    heads = [f"{asked.prefix(token)}head" for token in range(asked.tokens)]
    return compare_generated(replay, expected, heads, tolerance)
