"""Limits on what is simulated: larger plans are refused at once, with the numbers."""

from __future__ import annotations

import math

import numpy as np

from simcluster.cluster import Cluster
from simcluster.errors import PlanError, Problem
from simcluster.layout import Mesh
from simcluster.model import Graph
from simcluster.work import DType

MOST_RANKS = 2**20
"""Ranks of a plan; so many take a quarter of a minute to plan."""

MOST_LAYERS = 2**14
"""Layers of a model."""

MOST_PASSES = 2**19
"""Forward and backward passes of single layers in one run; so many take two minutes and 6 GB."""

MOST_OF_MANY = 2**24
"""The same where many ranks of each stage are timed beside each other: a minute, or four where communication
slows kernels down, and 11 GB."""

MANY = 8
"""Ranks of a stage, simulated one by one, from which on they are timed beside each other."""

MOST_BYTES = 2**50
"""Bytes of one logical tensor, so that sums over ranks stay below 64 bits."""


_REMEDIES = {
    "layers": ("model.layers", "use fewer layers"),
    "micro-batches": ("training.global_batch", "use a smaller global_batch or a larger micro_batch"),
    "steps": ("run.steps", "use fewer steps"),
    "prefill and decode steps": ("inference.decode_steps", "simulate fewer decode steps"),
    "ranks of each stage": ("parallel.mesh", "do not unfold: equal ranks behave equally"),
    "different ranks of each stage": ("cluster.changes", "change fewer devices, or more of them alike"),
}


def size_problems(mesh: Mesh, layers: int) -> list[Problem]:
    """Problems of a plan with more ranks or layers than can be simulated."""
    problems = []
    if mesh.num_ranks > MOST_RANKS:
        message = f"{mesh} = {mesh.num_ranks:,} ranks; at most {MOST_RANKS:,} are simulated"
        problems.append(Problem(message, "parallel.mesh"))
    if layers > MOST_LAYERS:
        problems.append(Problem(f"{layers:,} layers; at most {MOST_LAYERS:,} are simulated", "model.layers"))
    return problems


def check_passes(
    layers: int,
    micro_batches: int,
    *,
    mixed: bool = False,
    steps: int = 1,
    ranks: int = 1,
    different: int = 1,
    passes: int = 1,
) -> None:
    """PlanError if layers x micro-batches x steps x ranks simulated one by one are too many.

    ``ranks`` are those of an unfolded stage, ``different`` those that differ by their devices; they are timed
    beside each other unless the cluster is ``mixed``.
    """
    factors = {
        "layers": layers,
        "micro-batches": micro_batches,
        "steps": steps,
        "prefill and decode steps": passes,
        "ranks of each stage": ranks,
        "different ranks of each stage": different,
    }
    total = math.prod(factors.values())
    simulated = max(ranks, different)
    most = MOST_PASSES if mixed or simulated < MANY else min(MOST_OF_MANY, MOST_PASSES * simulated)
    if total <= most:
        return
    path, hint = _REMEDIES[max(factors, key=lambda name: factors[name])]
    product = " x ".join(f"{count:,} {name}" for name, count in factors.items() if count > 1)
    message = f"{product} = {total:,} passes of a layer; at most {most:,} are simulated"
    raise PlanError(message, path=path, hint=hint)


def check_rates(cluster: Cluster, *formats: DType, spared: int = 0) -> None:
    """PlanError if a device has no matrix rate in one of the formats; the last ``spared`` ranks need none."""
    problems = []
    groups = np.unique(cluster.group_of(np.arange(cluster.num_devices - spared))).tolist()
    for device in dict.fromkeys(cluster.groups[group].host.device for group in groups):
        lacking = [dtype for dtype in dict.fromkeys(formats) if dtype not in device.peak]
        if lacking:
            problems.append(
                Problem(
                    f"{device.name} has no matrix rate in {lacking[0]}",
                    "training.precision",
                    f"it has: {', '.join(map(str, device.peak))}",
                )
            )
    if problems:
        raise PlanError(*problems)


def check_tensors(graph: Graph) -> None:
    """PlanError if a tensor is so large that sums of such sizes exceed 64 bits."""
    for block in graph.blocks.values():
        for name, value in block.values.items():
            kind = value.type
            if kind.num_bytes > MOST_BYTES:
                shape = " x ".join(f"{size:,}" for size in kind.shape)
                raise PlanError(
                    f"{block.name}.{name} of {shape} {kind.dtype} is larger than {MOST_BYTES >> 50} PiB",
                    path="model",
                    hint="look at the sizes of the model, micro_batch and seq_len",
                )
