"""PyTorch's fully sharded data parallelism, as trainers ask for it."""

from __future__ import annotations

from typing import Any

from simcluster.foreign.assembly import known_host, state_host_updates
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

SHARDING = "parallel.optimizer_sharding"


def state_fully_sharded(facts: Facts, flag: Flag, *, regather: bool = True, group: int = 0) -> None:
    """Shards weights, gradients and states over all ranks, or over ``group`` neighbours (hybrid sharding).

    ``regather``: whether weights are freed behind the forward, and gathered again for the backward.
    """
    said: dict[str, Any] = {"fsdp": {"reshard_after_forward": regather}}
    if group:
        said["shard_size"] = group
    facts.replace(SHARDING, said, flag)


def state_cpu_offload(facts: Facts, flag: Flag, given: UserAdditions) -> None:
    """PyTorch's CPU offload: shards of weights, gradients and states lie on the host, which updates them."""
    cluster = known_host(given)
    if cluster and any(host.pcie is None for host in cluster.kinds):
        facts.unsupported(flag, "everything stays in the device's memory, as these hosts have no other")
        return
    if not state_host_updates(facts, flag, cluster):
        facts.say("parallel.offload.optimizer_states", "host", flag)
    facts.say("parallel.offload.parameters", "host", flag)
    sharding = facts.get(SHARDING)
    replicated = isinstance(sharding, dict) and "shard_size" in sharding
    if replicated or facts.get("pipeline", 1) > 1:
        reason = "over replicas" if replicated else "with a pipeline"
        facts.remark(f"{flag}: gradients, reduced once per step {reason}, stay on the device until then")
    else:
        facts.say("parallel.offload.gradients", "host", flag)


def devices_given(given: UserAdditions) -> int:
    """Devices of the cluster and hosts given with a file; 0 where they are not given or not known."""
    cluster = known_host(given)
    return cluster.num_devices * given.hosts if cluster and given.hosts else 0
