"""What parameter servers do not go with, said before anything is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.cluster import Cluster
from simcluster.errors import Problem
from simcluster.layout import Mesh
from simcluster.plan.rules import BATCH, AxisRoles
from simcluster.plan.spec import OffloadSpec, ParallelSpec, ShardingChoice, Task, TrainingSpec

PATH = "parallel.parameter_server"

RULES = ("sgd", "momentum", "adam", "adamw", "lazy_adam", "ftrl")
"""Rules of updates that work on a part of a tensor, as servers have them (MindSpore: momentum, adam,
lazy_adam, ftrl).
"""


def server_problems(
    parallel: ParallelSpec,
    task: Task,
    mesh: Mesh,
    roles: AxisRoles,
    sharding: ShardingChoice,
    cluster: Cluster,
) -> Iterator[Problem]:
    """Problems of a plan with parameter servers."""
    if parallel.parameter_server is None:
        return
    if not isinstance(task, TrainingSpec):
        yield Problem("servers update parameters, and nothing is trained", PATH, "leave it out")
        return
    batch = roles.resolve((BATCH,), mesh)
    for axis, size in mesh.axes:
        if size > 1 and axis not in batch:
            yield Problem(
                f"axis '{axis}' ({size}) splits the model, but every worker of servers runs all of it",
                f"parallel.mesh.{axis}",
                f"write {axis}: 1, or leave parameter_server out",
            )
    if sharding.states or sharding.gradients or sharding.weights:
        hint = "leave optimizer_sharding out: states are on the servers"
        yield Problem(
            "servers hold the optimizer states: nothing of them is sharded over workers", PATH, hint
        )
    if task.batch_shares:
        yield Problem(
            "servers take the mean over workers with equal shares of the batch", "training.batch_shares"
        )
    if task.optimizer.clip is not None:
        yield Problem(
            "no server sees all gradients, whose norm would be clipped",
            "training.optimizer.clip",
            "leave it out",
        )
    rules = [("kind", task.optimizer.kind)]
    rules += [(f"groups.{place}.kind", group.kind) for place, group in enumerate(task.optimizer.groups)]
    for path, kind in rules:
        if kind not in RULES:
            known = ", ".join(RULES)
            yield Problem(
                f"servers cannot update by {kind}", f"training.optimizer.{path}", f"they know {known}"
            )
    given = {"offload": parallel.offload != OffloadSpec(), "host": parallel.host, "shard": parallel.shard}
    for name, written in given.items():
        if written:
            yield Problem(
                f"'{name}' beside parameter servers is not supported", f"parallel.{name}", "leave it out"
            )
    if cluster.num_devices == mesh.num_ranks:
        yield from _places(mesh, cluster)


def _places(mesh: Mesh, cluster: Cluster) -> Iterator[Problem]:
    """Servers are on processors."""
    beside = np.arange(mesh.num_on_axes, mesh.num_ranks)
    for rank in beside.tolist():
        device = cluster.device(rank)
        who = "the scheduler" if rank == mesh.num_ranks - 1 else f"server {rank - mesh.num_on_axes}"
        if device.kind != "cpu":
            yield Problem(
                f"rank {rank}, {who}, would be on a {device.name}: servers are processes on processors",
                "cluster",
                f"write a last group of {len(beside)} processors, as {{use: cpu-server, hosts: ...}}",
            )
            return
