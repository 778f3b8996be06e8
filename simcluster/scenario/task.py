"""Whether a scenario trains or infers, and whether its plan has settings of the other task."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.document import Refused
from simcluster.errors import Problem
from simcluster.plan import InferenceSpec, ParallelSpec, Task, TrainingSpec

_OF_TRAINING = (
    "parameter_broadcast",
    "optimizer_sharding",
    "gradients_mean",
    "gradients_degree",
    "recompute",
    "fusion",
    "all_reduce_fusion_config",
)
"""What a plan says of gradients, optimizers and activations that are kept."""

_OF_SCHEDULES = ("kind", "chunks", "text", "placement")
"""What a schedule says of the order of forwards and backwards."""


def task_kind(training: TrainingSpec | None, inference: InferenceSpec | None) -> Task:
    """The section ``training`` or ``inference``, whichever is written; Refused for none or both."""
    if training is not None and inference is not None:
        raise Refused("a scenario trains or infers, not both", path="inference", hint="leave one of them out")
    task = training or inference
    if task is None:
        hint = "write training: {global_batch: ..., micro_batch: ..., seq_len: ...}, or inference: {...}"
        raise Refused("'training' is missing", path="training", hint=hint)
    return task


def check_inference(parallel: ParallelSpec, others: Mapping[str, object], steps: int) -> None:
    """Refused, with every problem, if an inference has settings that only training has.

    ``others`` are sections by name that belong to training; ``steps`` how many are run.
    """
    problems = [Problem(f"inference takes no '{name}' yet", name) for name, has in others.items() if has]
    if steps > 1:
        problems.append(Problem("one batch of prompts is answered", "run.steps", "leave it out"))
    problems += [
        Problem(f"inference keeps nothing for a backward pass: '{name}' has no meaning", f"parallel.{name}")
        for name in _OF_TRAINING
        if name in parallel.model_fields_set and getattr(parallel, name) != _usual(parallel, name)
    ]
    problems += [
        Problem(
            f"inference has no backward pass to order: '{name}' has no meaning", f"parallel.schedule.{name}"
        )
        for name in _OF_SCHEDULES
        if name in parallel.schedule.model_fields_set
        and getattr(parallel.schedule, name) != type(parallel.schedule).model_fields[name].default
    ]
    if parallel.schedule.p2p == "blocking":
        message = "tokens come back while activations go on: two stages would wait for each other"
        problems.append(Problem(message, "parallel.schedule.p2p", "write p2p: overlapped, or leave it out"))
    if parallel.context != "gather":
        problems.append(Problem("a decode step has no sequence to split", "parallel.context"))
    if parallel.shard:
        problems.append(Problem("inference of pieces is not supported yet", "parallel.shard"))
    if problems:
        raise Refused(*problems)


def _usual(parallel: ParallelSpec, name: str) -> object:
    return type(parallel).model_fields[name].default
