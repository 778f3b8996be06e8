"""Small runs that are saved, cut for other plans, and gone on with; compared with runs never interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, ScenarioError, SimclusterError, SimulationError
from simcluster.job import (
    MERGED,
    CheckpointContent,
    CheckpointFiles,
    CheckpointIndex,
    SourceSlices,
    rank_file,
    write_checkpoint,
)
from simcluster.model import Array, Model
from simcluster.plan import Plan
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints.plan_content import content_of
from simcluster.simulation.checkpoints.tensor_parts import fitted, merged_tensors, parts_of_rank
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.verification import (
    STEPS,
    TOLERANCES,
    ShrunkPlan,
    Verification,
    oracle_of,
    replay_plan,
)
from simcluster.values import Replay, SampleStream, ValueTolerance, compare_training

FloatName = Literal["float64", "float32"]

GROWTH = 10
"""Times the rounding that a run from the beginning may have: that of the steps before is in what it goes on
with, and training makes more of it with every step."""


@dataclass(frozen=True)
class SavedRun:
    """A scenario, its small plan, and how many steps it trained from which sample on."""

    scenario: Scenario
    small: ShrunkPlan
    steps: int
    first_sample: int

    @property
    def plan(self) -> Plan:
        """The plan of the small form."""
        return self.small.plan

    def document(self, folder: Path) -> dict[str, Any]:
        """The run as JSON-able data, with paths as seen from ``folder``."""
        return {
            "scenario": scenario_data(self.scenario, folder),
            "steps": self.steps,
            "first_sample": self.first_sample,
        }


def scenario_data(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """A scenario as JSON-able data; files that it names are found from ``folder``."""
    data = scenario.spec.model_dump(mode="json", exclude_unset=True)
    return {"folder": os.path.relpath(scenario.folder.resolve(), folder.resolve()), "data": data}


def read_scenario(data: Mapping[str, Any], folder: Path) -> Scenario:
    """The scenario again."""
    return Scenario.of(data["data"], folder / str(data["folder"]))


def samples_of_step(plan: Plan) -> int:
    """Samples that a step of a plan takes: the first dim of what it reads of a micro-batch, times these.

    PlanError where feeds differ in it.
    """
    rows = {
        block.values[name].type.shape[0]
        for block in plan.logical.blocks.values()
        for name in block.feeds
        if block.values[name].type.shape
    }
    if len(rows) != 1:
        raise PlanError(f"the inputs of a micro-batch have {sorted(rows)} rows; samples cannot be counted")
    return rows.pop() * plan.num_micro_batches


def save_small_run(
    scenario: Scenario, folder: Path, *, merged: bool = False, dtype: FloatName = "float64"
) -> Verification:
    """Trains the small form of a scenario for two steps, as ``verify`` does, and saves what its ranks hold.

    Nothing is saved if it does not compute what one device computes; the verification says so. Raises
    PlanError for what does not train.
    """
    if scenario.spec.training is None:
        raise scenario.located(PlanError("an inference has nothing to save", path="inference"))
    small = ShrunkPlan.of(scenario, plan_scenario(scenario))
    run = SavedRun(scenario, small, STEPS, 0)
    seed = scenario.spec.run.seed
    verification, replay = train_run(run, (), None, seed, dtype)
    if replay is not None and verification.agrees:
        _write(folder, (run,), scenario, replay, merged=merged, dtype=dtype, seed=seed)
    return verification


def resume_checkpoint(
    folder: Path, *, steps: int = STEPS, save: Path | None = None, merged: bool = False
) -> Verification:
    """Trains on from a checkpoint under the plan that its files are cut by, and compares that with one device
    that was never interrupted: it trains all steps from the first on.

    ``save``: where what ranks hold behind that is saved.
    """
    files = CheckpointFiles.open(folder)
    index = files.index
    history = read_history(index, folder)
    run = _next_run(index, history, folder, steps)
    content = content_of(build(run.plan), run.plan.vocab)
    slices = SourceSlices(index.content, content)
    restored = restored_parts(files, slices)
    dtype: FloatName = "float32" if index.dtype == "float32" else "float64"
    verification, replay = train_run(run, history, restored, index.seed, dtype)
    if save is not None and replay is not None and verification.agrees:
        every = (*history, run)
        _write(save, every, run.scenario, replay, merged=merged, dtype=dtype, seed=index.seed)
    return verification


def transform_checkpoint(
    folder: Path, target: Scenario, out: Path, *, merged: bool = False
) -> tuple[CheckpointIndex, SourceSlices]:
    """Cuts a checkpoint for the plan of another scenario, on the same small model.

    Each target rank reads the files that its rank list names, and no others. Returns the new index, and who
    needed what. Raises PlanError where that plan cannot train this model, and ScenarioError for what is no
    whole checkpoint; then nothing is written.
    """
    if target.spec.training is None:
        raise target.located(
            PlanError(
                "training goes on under a plan that trains",
                path="inference",
                hint="simcluster checkpoint load --predict loads for inference",
            )
        )
    files = CheckpointFiles.open(folder)
    index = files.index
    first = read_history(index, folder)[0]
    check_model(first.scenario, target)
    small = small_plan_on(target, first.small.shrunk.model)
    content = content_of(build(small.plan), small.plan.vocab)
    try:
        slices = SourceSlices(index.content, content)
    except PlanError as error:
        raise target.located(error) from None
    made = replace(
        index,
        merged=merged,
        content=content,
        history=tuple(_moved(entry, folder, out) for entry in index.history),
        scenario=scenario_data(target, out),
    )
    read = _reader(files)

    def parts(rank: int) -> dict[str, Array]:
        return parts_of_rank(slices, rank, read, merged=index.merged)

    write_checkpoint(out, made, _files(content, parts, merged=merged))
    return made, slices


def check_model(saved: Scenario, scenario: Scenario) -> None:
    """ScenarioError where a scenario is of another model than the one that saved a checkpoint."""
    theirs, wanted = saved.model.dimensions, scenario.model.dimensions
    differing = [
        f"{name} {theirs.get(name, 'none')}, not {wanted.get(name, 'none')}"
        for name in dict.fromkeys([*theirs, *wanted])
        if theirs.get(name) != wanted.get(name)
    ]
    if type(saved.model) is not type(scenario.model) or differing:
        kinds = [type(one.model).__name__ for one in (saved, scenario)]
        what = ", ".join(differing[:4]) or " and not ".join(kinds)
        raise scenario.located(
            ScenarioError(f"the checkpoint is of another model, that of '{saved.name}': {what}", path="model")
        )


def small_plan_on(scenario: Scenario, model: Model) -> ShrunkPlan:
    """The small plan of a scenario on a small model of another; PlanError where it cannot train that."""
    large = plan_scenario(scenario)
    try:
        return ShrunkPlan.of(scenario, large, model)
    except SimclusterError as error:
        sizes = ", ".join(f"{name} {size}" for name, size in model.dimensions.items())
        problems = tuple(
            replace(problem, message=f"on the small model ({sizes}): {problem.message}")
            for problem in error.problems
        )
        raise type(error)(*problems) from None


def read_history(index: CheckpointIndex, folder: Path) -> tuple[SavedRun, ...]:
    """The runs that trained a checkpoint, planned again on its small model."""
    runs: list[SavedRun] = []
    for entry in index.history:
        try:
            scenario = read_scenario(entry["scenario"], folder)
            steps, first = int(entry["steps"]), int(entry["first_sample"])
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(f"{folder} has a history that cannot be read: {error}") from None
        runs.append(SavedRun(scenario, _planned_again(scenario, runs), steps, first))
    if not runs:
        raise ScenarioError(f"{folder} does not say what trained it")
    return tuple(runs)


def _planned_again(scenario: Scenario, before: list[SavedRun]) -> ShrunkPlan:
    if before:
        return small_plan_on(scenario, before[0].small.shrunk.model)
    return ShrunkPlan.of(scenario, plan_scenario(scenario))


def _next_run(index: CheckpointIndex, history: tuple[SavedRun, ...], folder: Path, steps: int) -> SavedRun:
    scenario = read_scenario(index.scenario, folder)
    last = history[-1]
    same = scenario.spec == last.scenario.spec
    small = last.small if same else small_plan_on(scenario, history[0].small.shrunk.model)
    return SavedRun(scenario, small, steps, index.samples)


def _moved(entry: Mapping[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    """An entry of the history with its paths as seen from another folder."""
    scenario = dict(entry["scenario"])
    scenario["folder"] = os.path.relpath((folder / scenario["folder"]).resolve(), out.resolve())
    return {**entry, "scenario": scenario}


def _reader(files: CheckpointFiles) -> Any:
    """The parts of a rank, with the last ones kept."""
    return lru_cache(maxsize=64)(files.rank)


def restored_parts(files: CheckpointFiles, slices: SourceSlices) -> dict[int, dict[str, Array]]:
    """What every target rank begins with, by rank and tensor, from the files that it needs."""
    read = _reader(files)
    ranks = range(slices.target.mesh.num_ranks)
    return {rank: parts_of_rank(slices, rank, read, merged=files.index.merged) for rank in ranks}


def train_run(
    run: SavedRun,
    history: tuple[SavedRun, ...],
    restored: Mapping[int, Mapping[str, Array]] | None,
    seed: int,
    dtype: FloatName,
) -> tuple[Verification, Replay | None]:
    """A run on its ranks, and the whole history with it on one device: whether they agree, and the replay.

    ``restored`` is what ranks begin with, by rank and tensor; None for a new run.
    """
    first_step = sum(before.steps for before in history)
    start: dict[str, Array] = {}
    at = 0
    expected = []
    for one in (*history, run):
        source = stream_of(one, at, seed, dtype)
        before = with_vocabulary_of(start, one.plan)
        oracle = oracle_of(one.plan, source, at, before)
        expected = oracle.run(one.steps)
        start, at = oracle.saved(), at + one.steps
    own = stream_of(run, first_step, seed, dtype)
    own.restored = restored or {}
    own.parameters |= before
    rules = run.plan.update
    assert rules is not None, "a run that trains"
    tolerance = ValueTolerance.of(dtype, TOLERANCES[dtype]).times(GROWTH if history else 1)
    fault, replay = "", None
    try:
        replay = replay_plan(run.plan, run.small.shrunk.cluster, own, run.steps, first_step=first_step)
        comparisons = tuple(compare_training(replay, expected, rules, tolerance))
    except SimulationError as error:
        fault, comparisons = str(error), ()
    numbered = tuple(replace(one, step=one.step + first_step) for one in comparisons)
    name, ranks = run.scenario.name, run.plan.mesh.num_ranks
    changes = run.small.shrunk.changes
    return Verification(name, dtype, ranks, changes, numbered, fault, run.steps, tolerance.relative), replay


def with_vocabulary_of(tensors: Mapping[str, Array], plan: Plan) -> dict[str, Array]:
    """Whole tensors with the padded vocabulary of ``plan``: rows are cut off, or rows of zeros appended."""
    shapes = {tensor.name: tensor.shape for tensor in content_of(build(plan), plan.vocab).tensors}
    return {name: fitted(array, shapes.get(name, array.shape)) for name, array in tensors.items()}


def stream_of(run: SavedRun, first_step: int, seed: int, dtype: str) -> SampleStream:
    """The samples of a run that begins with a step."""
    return SampleStream(
        seed,
        np.dtype(dtype),
        position=run.first_sample,
        first_step=first_step,
        per_step=samples_of_step(run.plan),
    )


def _write(
    folder: Path,
    runs: tuple[SavedRun, ...],
    scenario: Scenario,
    replay: Replay,
    *,
    merged: bool,
    dtype: FloatName,
    seed: int,
) -> None:
    last = runs[-1]
    content = content_of(replay.program, last.plan.vocab)
    held: dict[int, dict[str, Array]] = {}
    for rank, name, _, array in replay.saved():
        held.setdefault(rank, {})[name] = array
    index = CheckpointIndex(
        merged,
        dtype,
        seed,
        sum(run.steps for run in runs),
        last.first_sample + last.steps * samples_of_step(last.plan),
        content,
        tuple(run.document(folder) for run in runs),
        scenario_data(scenario, folder),
    )
    write_checkpoint(folder, index, _files(content, held.__getitem__, merged=merged))


def _files(
    content: CheckpointContent, parts: Any, *, merged: bool
) -> Iterator[tuple[str, Mapping[str, Array]]]:
    if merged:
        yield MERGED, merged_tensors(content, parts)
        return
    for rank in range(content.mesh.num_ranks):
        yield rank_file(rank), parts(rank)
