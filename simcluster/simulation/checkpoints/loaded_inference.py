"""A trained checkpoint loaded for inference: ``load_distributed_checkpoint`` with a prediction's strategy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simcluster.errors import PlanError, SimulationError
from simcluster.job import CheckpointFiles, SourceSlices
from simcluster.model import Array
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints.plan_content import content_of
from simcluster.simulation.checkpoints.saved_training import (
    FloatName,
    check_model,
    read_history,
    restored_parts,
    small_plan_on,
    stream_of,
    with_vocabulary_of,
)
from simcluster.simulation.verification import (
    TOLERANCES,
    Verification,
    compare_generation,
    oracle_of,
    replay_plan,
)
from simcluster.values import SampleStream, TensorComparison, ValueTolerance


def load_for_inference(folder: Path, target: Scenario) -> tuple[Verification, SourceSlices]:
    """Loads the weights of a checkpoint under the plan of a scenario that answers prompts, and compares its
    logits with those of one device that trained them itself.

    Also returned is which slices ranks read. Raises PlanError where the plan cannot run the small model of
    the checkpoint, and ScenarioError for what is no whole checkpoint.
    """
    if target.spec.inference is None:
        raise target.located(PlanError("write a scenario with inference", path="training"))
    files = CheckpointFiles.open(folder)
    index = files.index
    history = read_history(index, folder)
    check_model(history[0].scenario, target)
    model = history[0].small.shrunk.model
    small = small_plan_on(target, model)
    program = build(small.plan)
    try:
        slices = SourceSlices(index.content, content_of(program, small.plan.vocab))
    except PlanError as error:
        raise target.located(error) from None
    dtype: FloatName = "float32" if index.dtype == "float32" else "float64"
    trained: dict[str, Array] = {}
    at = 0
    for run in history:
        source = stream_of(run, at, index.seed, dtype)
        oracle = oracle_of(run.plan, source, at, with_vocabulary_of(trained, run.plan))
        oracle.run(run.steps)
        trained, at = oracle.saved(), at + run.steps
    source = SampleStream(index.seed, np.dtype(dtype), restored=restored_parts(files, slices))
    known = SampleStream(index.seed, np.dtype(dtype))
    known.parameters |= with_vocabulary_of(trained, small.plan)
    fault, comparisons = "", tuple[TensorComparison, ...]()
    try:
        replay = replay_plan(small.plan, small.shrunk.cluster, source, 1, program)
        tolerance = ValueTolerance.of(dtype, TOLERANCES[dtype])
        comparisons = tuple(compare_generation(small.plan, model, replay, known, tolerance))
    except SimulationError as error:
        fault = str(error)
    ranks, changes = small.plan.mesh.num_ranks, small.shrunk.changes
    return Verification(target.name, dtype, ranks, changes, comparisons, fault, 1, TOLERANCES[dtype]), slices
