"""The public functions of simcluster.

scenario = simcluster.load("scenarios/quickstart.yaml", training__micro_batch=2)
result = simcluster.simulate(scenario)
result.step_time_s, result.mfu, result.peak_memory_bytes
result.spans()
result.to_perfetto("trace.json.gz")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simcluster import simulation
from simcluster.engine import Progress
from simcluster.report import counted_display, progress_display
from simcluster.result import Result
from simcluster.scenario import Scenario
from simcluster.simulation import (
    Entry,
    GivenScenario,
    GraphPiece,
    Operand,
    ShardedGraph,
    Verification,
    predict_layouts,
    scenario_of,
)

if TYPE_CHECKING:
    from simcluster.sweeps import SweepResult


def load(path: str | Path, **changes: object) -> Scenario:
    """The scenario in a YAML file.

    ``changes`` replace what it says, by key path with ``__`` or ``.`` between keys:
    ``load(path, training__global_batch=512, parallel__mesh={"data": 8, "tensor": 4})``. Text is read as YAML,
    as ``--set`` does: ``cluster__hosts="64"`` and ``64`` are the same.

    Raises ScenarioError with every problem of the file.
    """
    return Scenario.load(path, [(key.replace("__", "."), _yaml(value)) for key, value in changes.items()])


def graph(scenario: GivenScenario) -> ShardedGraph:
    """The operators of a scenario's model as a graph that can be sharded from Python.

    ``graph.shard("layers.*.mlp.up", in_strategy, out_strategy)`` gives a graph with one more strategy, which
    ``simulate`` and ``verify`` take like a scenario; ``print`` shows operators and their dims.
    """
    return ShardedGraph(scenario_of(scenario))


def shard(
    fn: GraphPiece,
    in_strategy: Sequence[Operand] | None = None,
    out_strategy: Sequence[Operand] | None = None,
    parameter_plan: Mapping[str, Sequence[Entry]] | None = None,
    device: str | None = "Ascend",
    level: int = 0,
) -> ShardedGraph:
    """The graph in which a piece runs as one graph, as MindSpore's ``shard(fn, in_strategy, ...)``.

    ``fn`` is a piece of a graph: ``simcluster.graph(scenario).piece("layers.*.mlp")``. The other arguments
    are those of its method ``shard``. Everything outside is dispatched operator by operator.
    """
    return fn.shard(in_strategy, out_strategy, parameter_plan, device, level)


def simulate(
    scenario: GivenScenario,
    *,
    unfold: bool = False,
    replications: int = 1,
    jobs: int = 1,
) -> Result:
    """The ``Result`` of simulating a scenario: a file, a ``Scenario``, or a dict with the keys of a file.

    With ``unfold`` every rank is simulated, not one of each class of equal ranks. A job over days is run
    ``replications`` times with other random draws, by ``jobs`` processes. A plan that does not fit
    into memory is a result (``result.fits``), not an error. Raises ScenarioError for a wrong file, PlanError
    for an impossible plan and SimulationError for a deadlock.
    """
    which, progress = scenario_of(scenario), Progress()
    with progress_display(which.name, progress):
        run = simulation.simulate(
            which, unfold=unfold, replications=replications, jobs=jobs, progress=progress
        )
    return Result(run)


def verify(
    scenario: GivenScenario,
    *,
    dtype: Literal["float64", "float32"] = "float64",
    save: str | Path | None = None,
) -> Verification:
    """Whether the plan computes what one device computes, tested on a small form of it with real values.

    Loss, gradients and updated parameters of two steps are compared. The Verification is true if they agree;
    its ``check`` raises an error if they do not, and ``print`` shows the table. With ``save`` the tensors of
    the ranks are written to that folder as a checkpoint, one safetensors file per rank. Raises ScenarioError
    and PlanError as ``simulate`` does.
    """
    if save is not None:
        return simulation.save_small_run(scenario_of(scenario), Path(save), dtype=dtype)
    return simulation.verify(scenario_of(scenario), dtype=dtype)


def sweep(
    scenario: GivenScenario,
    vary: Mapping[str, Iterable[object]],
    *,
    objective: str | None = None,
    out: str | Path | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    restart: bool = False,
    watch: Callable[[int], None] | None = None,
) -> SweepResult:
    """A table with a row for each combination of values: ``vary={"parallel.mesh.tensor": [1, 2, 4, 8]}``.

    ``objective`` is the figure that is best in the best row, by default the step time; ``simcluster sweep
    --help`` lists them. Points are simulated by ``jobs`` processes (one for each processor), on the workers
    of a Dask scheduler (``dask``: its address, or ``local``), or on any ``concurrent.futures.Executor``,
    which is not shut down. Rows are the same, in the same order, on all of them. ``out`` (.csv or .parquet)
    is written at the end; until then rows are kept beside it, so that the same call continues after an
    interruption; ``restart`` discards them. ``watch`` is called with the number of points that are done.

    A plan that is impossible or does not fit is a row with its reason. Raises ScenarioError, before anything
    runs, for keys that do not exist and values that are always wrong, and SimulationError if the executor
    breaks down.
    """
    from simcluster import sweeps
    from simcluster.workers import borrowed_executor

    file = None if out is None else sweeps.SweepFile.of(out)
    space = sweeps.SweepSpace.of(sweeps.Variation.of(key, values) for key, values in vary.items())
    base = scenario_of(scenario)
    sweeps.check_values(base, space)
    wanted = sweeps.objective_of(base, objective)
    with ExitStack() as stack:
        journal = None
        if file is not None:
            journal = stack.enter_context(sweeps.open_journal(file, base, space, restart=restart))
        run = sweeps.SweepRun(base, space, wanted, journal)
        if run.num_left:
            workers = stack.enter_context(borrowed_executor(executor, jobs, dask, run.num_left))
            points = f"{space.num_points:,} points"
            run.run(workers, stack.enter_context(counted_display(base.name, points, watch)))
        result = run.result()
        if file is not None:
            file.write(result)
        run.forget()
    return result


def infer_predict_layout(scenario: GivenScenario) -> dict[str, dict[str, Any]]:
    """The layout of every weight of an inference by its full name, as MindSpore's function gives it.

    A layout has the ``stages`` that hold the weight, its ``shape`` and ``dtype``, the ``device_matrix`` of
    the ranks of a stage, the ``tensor_map`` (for each dim its position in the matrix counted from the right,
    -1: not split) and the ``slice_shape`` of a rank.
    Raises ScenarioError for a scenario that trains, and PlanError as ``simulate`` does.
    """
    return predict_layouts(scenario_of(scenario))


def _yaml(value: object) -> str:
    """A Python value as YAML; JSON is YAML."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
