"""``tenants:``: other scenarios that run at the same time on other hosts of the cluster."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from simcluster.cluster import ClusterSpec, IndexList, format_index_list, parse_index_list
from simcluster.collectives import CollectivesSpec
from simcluster.document import Name, Refused, Section, Unsupported
from simcluster.engine import RunSpec
from simcluster.model import ModelSpec
from simcluster.plan import IDEAL, FrameworkSpec, ParallelSpec, TrainingSpec


class TenantWorkloadSpec(Section):
    """What a tenant trains and how; the hardware is that of the enclosing scenario."""

    framework: FrameworkSpec = Field(default=IDEAL, validate_default=True)
    """A framework profile."""

    model: ModelSpec
    """The model that is trained."""

    training: TrainingSpec
    """Batch, sequence length, precision, optimizer."""

    inference: Unsupported = None
    """Prompts that are answered."""

    data: Unsupported = None
    """Input pipeline."""

    parallel: ParallelSpec
    """The parallel plan; its mesh must have one rank for every device of the tenant's hosts."""

    collectives: CollectivesSpec = CollectivesSpec.model_construct()
    """Choice of collective algorithms."""

    job: Unsupported = None
    """A run over days: launch, checkpoints, failures."""

    run: RunSpec = RunSpec.model_construct()
    """The number of steps over which its figures are averaged."""


class TenantFileSpec(TenantWorkloadSpec):
    """A scenario file that a tenant is read from.

    ``cluster`` and ``expect`` are for running it by itself. Of its cluster only the size is looked at.
    """

    simcluster: Literal[1]
    """Version of the scenario format."""

    name: Name
    """What it is called."""

    cluster: ClusterSpec | None = None
    """Hardware to run it on by itself."""

    tenants: Any = None
    """None: a tenant has no tenants."""

    expect: dict[Name, Any] = {}
    """Bounds on its figures where it runs by itself."""

    @model_validator(mode="after")
    def _is_one(self) -> TenantFileSpec:
        if self.tenants:
            raise Refused("a tenant has no tenants; name them all in one scenario", path="tenants")
        return self


class TenantSpec(Section):
    """One tenant: ``{scenario: other.yaml, hosts: 32-63}``."""

    name: Name | None = None
    """Its name in reports; by default the name of its scenario."""

    scenario: Name | TenantWorkloadSpec
    """A scenario file, relative to this one, or model, training and parallel written inline."""

    hosts: IndexList
    """Its hosts: a range such as ``32-63``, or a list. Its ranks are assigned to them in this order."""

    @model_validator(mode="after")
    def _has_a_name(self) -> TenantSpec:
        if self.name is None and isinstance(self.scenario, TenantWorkloadSpec):
            raise Refused("a tenant written out needs a name: name: other training")
        return self


def check_hosts(cluster: ClusterSpec, num_ranks: int, tenants: tuple[TenantSpec, ...]) -> None:
    """Refused, with the key, if hosts are not there or given to two of the scenario and its tenants."""
    if tenants and cluster.groups:
        raise Refused("tenants share a cluster of equal hosts, not of several groups", path="tenants")
    if tenants and cluster.file is not None:
        message = f"the hosts of a {cluster.file[0]} are one job's; write 'hosts' and 'own_hosts' instead"
        raise Refused(message, path=f"cluster.{cluster.file[0]}")
    own = own_hosts(cluster, num_ranks, bool(tenants))
    if own is None:
        return
    given: dict[int, str] = {}
    chosen = [
        ("cluster.own_hosts" if cluster.own_hosts is not None else "parallel.mesh", "this scenario", own)
    ]
    for index, tenant in enumerate(tenants):
        who = f"tenant {tenant.name or index}"
        chosen.append((f"tenants.{index}.hosts", who, parse_index_list(tenant.hosts)))
    for path, who, hosts in chosen:
        if (most := max(hosts)) >= cluster.num_hosts:
            wrong = f"there is no host {most}; the last of {cluster.num_hosts:,} is {cluster.num_hosts - 1}"
            if path == "parallel.mesh":
                per_host = cluster.devices_per_host
                wrong = f"{num_ranks:,} ranks need {len(own):,} hosts of {per_host} devices, "
                wrong += f"of {cluster.num_hosts:,}"
            raise Refused(wrong, path=path)
        for whose in dict.fromkeys(given[host] for host in hosts if host in given):
            twice = [host for host in hosts if given.get(host) == whose]
            first = [host for host, name in given.items() if name == whose]
            raise Refused(
                f"{format_index_list(hosts)} of {who} and {format_index_list(first)} of {whose} "
                f"have {format_index_list(twice)} in common",
                path=path,
                hint="" if whose != "this scenario" or cluster.own_hosts is not None else _OWN,
            )
        given |= dict.fromkeys(hosts, who)


def own_devices(cluster: ClusterSpec, tenants: tuple[TenantSpec, ...]) -> int:
    """How many devices a scenario has to itself: those of its own hosts, else all that its tenants leave."""
    if cluster.own_hosts is not None:
        return len(parse_index_list(cluster.own_hosts)) * cluster.devices_per_host
    if not tenants:
        return cluster.num_devices
    given = {host for tenant in tenants for host in parse_index_list(tenant.hosts)}
    return max(0, cluster.num_hosts - len(given)) * cluster.devices_per_host


_OWN = "this scenario has the first hosts, unless cluster.own_hosts names others"


def own_hosts(cluster: ClusterSpec, num_ranks: int, shared: bool) -> tuple[int, ...] | None:
    """The hosts that a scenario runs on itself: as written, else with tenants the first ones, else all."""
    if cluster.own_hosts is not None:
        return parse_index_list(cluster.own_hosts)
    return tuple(range(-(-num_ranks // cluster.devices_per_host))) if shared else None
