"""What saving and loading take in time, on the links that steps use: handed to the run over days."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Host
from simcluster.collectives import AUTOMATIC
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing, Workload, classes_on_links, classes_together, run_together
from simcluster.errors import PlanError, Problem, ScenarioError, SimclusterError
from simcluster.job import (
    CheckpointContent,
    CheckpointsSpec,
    LoadCost,
    LoadSpec,
    SaveCost,
    SourceSlices,
    StrategyFile,
    merge_strategy_files,
)
from simcluster.plan import TrainingSpec, frozen_parameters
from simcluster.program import BytesMoved, build, program_of_copies
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints.plan_content import content_of
from simcluster.simulation.checkpoints.save_steps import LoadSteps, SaveSteps, steps_to_load, steps_to_save
from simcluster.simulation.compose import (
    BuiltScenario,
    build_scenario,
    plan_scenario,
    run_alone,
    workload_of,
)
from simcluster.units import size

STEPS_OF_TRAINING = 1.0
"""Of what is written beside training, so many steps' worth are simulated; the rest goes on like that."""


@dataclass(frozen=True, eq=False)
class CheckpointCosts:
    """The checkpoints of a built scenario: what they hold, and what saving and loading them takes.

    ``step_s`` is a step with nothing saved beside it.
    """

    built: BuiltScenario
    spec: CheckpointsSpec
    step_s: float

    @classmethod
    def of(cls, built: BuiltScenario, step_s: float) -> CheckpointCosts | None:
        """Those of a scenario that has checkpoints; None for others. PlanError for what does not train."""
        job = built.scenario.spec.job
        if job is None or job.checkpoints is None:
            return None
        if built.plan.servers is not None:
            _check_servers(job.checkpoints)
        if not isinstance(built.scenario.spec.task, TrainingSpec):
            raise PlanError("an inference saves no checkpoints", path="job.checkpoints")
        return cls(built, job.checkpoints, step_s)

    @cached_property
    def content(self) -> CheckpointContent:
        """What a checkpoint holds: of a model with adapters these alone, as those of PEFT and Bridge do."""
        task = self.built.scenario.spec.training
        if task is None or task.lora is None:
            return self.whole
        frozen = frozen_parameters(self.built.plan.graph)
        trained = (tensor for tensor in self.whole.tensors if tensor.name not in frozen)
        return replace(self.whole, tensors=tuple(trained))

    @cached_property
    def whole(self) -> CheckpointContent:
        """What is loaded: what a checkpoint holds, and the frozen weights of the model."""
        built, weights_only = self.built, not self.spec.optimizer_states
        content = content_of(built.program, built.plan.vocab, weights_only=weights_only, servers=True)
        if self.spec.weights == "saved":
            return content
        made = content.without_rebuilt()
        if len(made.tensors) == len(content.tensors):
            raise PlanError("no weight has a master copy to be made from", path="job.checkpoints.weights")
        return made

    @cached_property
    def steps(self) -> SaveSteps:
        """What ranks do to save."""
        steps = steps_to_save(self.spec, self.content, self.built.cluster)
        self._check_memory(steps)
        self._check_disks(steps)
        return steps

    @cached_property
    def source(self) -> SourceSlices | None:
        """Which slices of another scenario's checkpoint are loaded; None: its own checkpoint."""
        if self.spec.load is None:
            return None
        key = "from" if self.spec.load.strategy is None else "strategy"
        path = f"job.checkpoints.load.{key}"
        try:
            return SourceSlices(self._saved(self.spec.load), self.whole)
        except ScenarioError as error:
            raise ScenarioError(*(replace(problem, path=path) for problem in error.problems)) from None
        except PlanError as error:
            raise PlanError(*(replace(problem, path=path) for problem in error.problems)) from None

    def _saved(self, load: LoadSpec) -> CheckpointContent:
        folder = self.built.scenario.folder
        if load.strategy is not None:
            return read_strategies(folder / load.strategy).content(self.whole)
        other = Scenario.load(folder / str(load.source))
        plan = plan_scenario(other)
        return content_of(build(plan), plan.vocab, weights_only=not self.spec.optimizer_states)

    @cached_property
    def loading(self) -> LoadSteps:
        """What ranks do to load."""
        return steps_to_load(self.spec, self.whole, self.built.cluster, self.source)

    @cached_property
    def save_phases(self) -> dict[str, float]:
        """Seconds of gathering, of the copy to hosts, of opening files, of writing with nothing beside."""
        steps = self.steps
        return {
            "gather_s": self._seconds(steps.gather),
            "copy_s": self._seconds(steps.staged),
            "open_s": steps.opened,
            "write_s": self._seconds(steps.written),
        }

    @cached_property
    def save(self) -> SaveCost:
        """What a checkpoint costs training."""
        phases = self.save_phases
        if not self.spec.asynchronous:
            return SaveCost(self.steps.num_bytes, math.fsum(phases.values()), 0.0, self.step_s)
        writing, step = self._beside(self.steps.written, phases["write_s"])
        blocking = phases["gather_s"] + phases["copy_s"]
        background = phases["open_s"] + writing
        # A checkpoint is written before the next one begins; training waits for it if it must.
        late = max(0.0, background - self.spec.every * step)
        return SaveCost(self.steps.num_bytes, blocking + late, background - late, step, late)

    @cached_property
    def load(self) -> LoadCost:
        """What loading takes at the start: another plan's checkpoint where ``load`` names one."""
        return self._load_cost(self.loading)

    @cached_property
    def reload(self) -> LoadCost:
        """What loading takes after a failure: a checkpoint that this plan saved."""
        if self.spec.load is None:
            return self.load
        return self._load_cost(steps_to_load(self.spec, self.whole, self.built.cluster, None))

    def _load_cost(self, steps: LoadSteps) -> LoadCost:
        seconds = self._seconds(steps.spread) + steps.opened + self._seconds(steps.read)
        return LoadCost(steps.num_bytes, seconds)

    def _seconds(self, steps: Sequence[BytesMoved]) -> float:
        """Of some steps, alone on the cluster."""
        moved = [step for step in steps if step.num_bytes.any()]
        if not moved:
            return 0.0
        program = program_of_copies(self.content.mesh, moved)
        algorithms = self.built.plan.execution.algorithms
        classes, fabric = classes_on_links(program, self.built.cluster, algorithms)
        workload = Workload(program, self.built.cluster, classes, algorithms=algorithms, fabric=fabric)
        return run_together([workload])[0].end * 1e-9

    def _beside(self, steps: Sequence[BytesMoved], alone: float) -> tuple[float, float]:
        """Seconds of some steps while training goes on, and of a step of training while they go on.

        Both run at once on links that they share; of what takes longer than a step, a part is simulated.
        """
        moved = [step for step in steps if step.num_bytes.any()]
        if not moved:
            return 0.0, self.step_s
        whole = max(1.0, alone / (STEPS_OF_TRAINING * self.step_s))
        parts = [replace(step, num_bytes=_share(step.num_bytes, whole)) for step in moved]
        program = program_of_copies(self.content.mesh, parts)
        built, algorithms = self.built, self.built.plan.execution.algorithms
        (classes, fabric), (copies, shared) = classes_together(
            [(built.program, built.cluster, algorithms), (program, built.cluster, AUTOMATIC)]
        )
        training = workload_of(replace(built, classes=classes, fabric=fabric))
        writing = Workload(program, built.cluster, copies, algorithms=AUTOMATIC, fabric=shared)
        timings: list[Timing] = run_together([training, writing])
        step = timings[0].end * 1e-9 / built.scenario.spec.run.steps
        return timings[1].end * 1e-9 * whole, max(step, self.step_s)

    def _check_memory(self, steps: SaveSteps) -> None:
        """PlanError if what is staged does not fit into the memory of a host."""
        if not (self.spec.asynchronous or self.spec.storage.kind == "replicas"):
            return
        for host, largest in self._hosts(steps.host_bytes):
            if largest > host.memory:
                raise PlanError(
                    f"a checkpoint takes {size(largest)} of a host's memory of {size(host.memory)} until it "
                    "is written",
                    path="job.checkpoints",
                    hint="write remove_redundancy: true, or asynchronous: false",
                )

    def _check_disks(self, steps: SaveSteps) -> None:
        """PlanError if the checkpoints that are kept do not fit onto the disks of a host."""
        if self.spec.storage.kind != "disks":
            return
        (written,) = (step.num_bytes for step in steps.written)
        for host, largest in self._hosts(written):
            if host.disk_capacity and largest * self.spec.keep > host.disk_capacity:
                raise PlanError(
                    f"{self.spec.keep} checkpoints take {self.spec.keep} x {size(largest)} of a host's disks "
                    f"of {size(host.disk_capacity)}",
                    path="job.checkpoints.keep",
                    hint="keep fewer, write remove_redundancy: true, or choose another kind of storage",
                )

    def _hosts(self, num_bytes: NDArray[np.int64]) -> Iterator[tuple[Host, int]]:
        """The host of every group, and the most bytes of the ranks of one of these hosts."""
        cluster = self.built.cluster
        ranks = np.arange(len(num_bytes))
        of_host = np.bincount(cluster.hosts_of(ranks), weights=num_bytes).astype(np.int64)
        groups = cluster.group_of(ranks)
        for number, group in enumerate(cluster.groups):
            own = np.unique(cluster.hosts_of(ranks[groups == number]))
            yield group.host, int(of_host[own].max(initial=0))

    def document(self) -> dict[str, Any]:
        """The costs as JSON-able data."""
        content, save, load = self.content, self.save, self.load
        files = self.steps.files
        document: dict[str, Any] = {
            "every_steps": self.spec.every,
            "keep": self.spec.keep,
            "storage": self.spec.storage.kind,
            "form": "merged" if self.spec.merged else "sharded",
            "asynchronous": self.spec.asynchronous,
            "tensors": len({tensor.name for tensor in content.tensors}),
            "content_bytes": content.num_bytes,
            "written_bytes": save.num_bytes,
            "written_bytes_of_rank_max": int(max(step.num_bytes.max() for step in self.steps.written)),
            "files": int(files.sum()),
            "host_memory_bytes_max": self._host_memory(),
            "save": {
                "blocking_s": save.blocking_s,
                "background_s": save.background_s,
                "step_s": save.step_s,
                "step_alone_s": self.step_s,
                **self.save_phases,
            },
            "load": {
                "seconds": load.seconds,
                "read_bytes": load.num_bytes,
                "files_of_rank_max": int(self.loading.files.max()),
            },
            "overhead": self._overhead(save),
        }
        if self.source is not None and self.spec.load is not None:
            document["load"]["from"] = self.spec.load.source or self.spec.load.strategy
            document["load"]["transformed"] = transform_document(self.source)
        return document

    def _host_memory(self) -> int:
        return max(largest for _, largest in self._hosts(self.steps.host_bytes))

    def _overhead(self, save: SaveCost) -> float:
        """What checkpoints add to training, as a part of the time of the steps between two."""
        work = self.spec.every * self.step_s
        slowed = save.background_s * (1 - self.step_s / save.step_s)
        return (save.blocking_s + slowed) / work


def _check_servers(spec: CheckpointsSpec) -> None:
    """PlanError for what parameter servers cannot do with checkpoints."""
    reasons = {
        "merged": (spec.merged, "parameter servers do not gather: every one writes the keys that it has"),
        "asynchronous": (
            spec.asynchronous,
            "parameter servers write from the memory that they update: what is written while workers go on "
            "is the state of no step",
        ),
        "weights": (spec.weights == "rebuilt", "parameter servers save the keys that they have"),
        "readers": (spec.readers == "first", "parameter servers read the keys that they have"),
        "load": (
            spec.load is not None,
            "parameter servers load what those of the same plan have saved: keys by modulo and rows of "
            "tables are no layout that could be cut for others",
        ),
    }
    path = "job.checkpoints"
    if problems := [
        Problem(why, f"{path}.{key}", "leave it out") for key, (asked, why) in reasons.items() if asked
    ]:
        raise PlanError(*problems)


def _share(num_bytes: Any, whole: float) -> Any:
    return np.ceil(num_bytes / whole).astype(np.int64)


def transform_document(slices: SourceSlices) -> dict[str, Any]:
    """Which files ranks need of another plan's checkpoint, and how much they read, as JSON-able data."""
    return {
        "source_ranks": slices.source.mesh.num_ranks,
        "target_ranks": slices.target.mesh.num_ranks,
        "source_mesh": dict(slices.source.mesh.axes),
        "target_mesh": dict(slices.target.mesh.axes),
        "tensors": len({tensor.name for tensor in slices.target.tensors}),
        "content_bytes": slices.source.num_bytes,
        "source_file_bytes": int(slices.source.rank_bytes.sum()),
        "slice_bytes": int(slices.read_bytes.sum()),
        "slice_bytes_of_rank_max": int(slices.read_bytes.max()),
        "whole_file_bytes": int(slices.whole_file_bytes.sum()),
        "whole_file_bytes_of_rank_max": int(slices.whole_file_bytes.max()),
        "files_of_rank_min": int(slices.num_files.min()),
        "files_of_rank_mean": float(slices.num_files.mean()),
        "files_of_rank_max": int(slices.num_files.max()),
    }


def price_checkpoints(scenario: Scenario) -> CheckpointCosts:
    """The costs of a scenario's checkpoints, its step simulated; PlanError if it has none."""
    built = build_scenario(scenario)
    timing = run_alone(built)
    try:
        costs = CheckpointCosts.of(built, timing.end * 1e-9 / scenario.spec.run.steps)
    except SimclusterError as error:
        raise scenario.located(error) from None
    if costs is None:
        raise scenario.located(PlanError("the scenario has no job.checkpoints", path="job"))
    return costs


def read_strategies(path: Path) -> StrategyFile:
    """MindSpore's strategy file, or those of all stages in a folder, merged."""
    if not path.is_dir():
        return StrategyFile.read(path)
    files = sorted(path.glob("*.json"))
    if not files:
        raise ScenarioError(f"{path} has no strategy files in JSON")
    return merge_strategy_files(files)


def source_slices_of(source: Scenario | Path, target: Scenario, predict: Path | None = None) -> SourceSlices:
    """Which slices of a checkpoint the ranks of a scenario need; PlanError if it lacks any.

    The checkpoint is that of another scenario, or of what lies as MindSpore's strategy file at a path says.
    With ``predict`` ranks hold what another such file says, not what the scenario's plan does.
    """
    plan = plan_scenario(target)
    wanted = content_of(build(plan), plan.vocab)
    if isinstance(source, Scenario):
        before = plan_scenario(source)
        saved = content_of(build(before), before.vocab)
    else:
        saved = read_strategies(source).content(wanted)
    if predict is not None:
        wanted = read_strategies(predict).content(wanted)
    try:
        return SourceSlices(saved, wanted)
    except PlanError as error:
        raise target.located(error) from None
