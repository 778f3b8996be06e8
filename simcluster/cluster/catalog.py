"""The shipped devices and hosts, by name, read when they are asked for."""

from __future__ import annotations

from functools import cache

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.device import Device
from simcluster.cluster.host import Host
from simcluster.cluster.spec import ClusterSpec, DeviceSpec, HostSpec
from simcluster.document import validate_data


def device_names() -> tuple[str, ...]:
    """The names of the shipped devices, sorted."""
    return tuple(DeviceSpec.entries())


def host_names() -> tuple[str, ...]:
    """The names of the shipped hosts, sorted."""
    return tuple(HostSpec.entries())


@cache
def load_device(name: str) -> Device:
    """A shipped device, one object per name; ScenarioError, with the nearest name, if there is none."""
    return DeviceSpec.load(name).build()


@cache
def load_host(name: str) -> Host:
    """A shipped host, one object per name; ScenarioError, with the nearest name, if there is none."""
    return HostSpec.load(name).build()


def load_cluster(name: str, hosts: int = 1) -> Cluster:
    """``hosts`` shipped hosts of one kind; ScenarioError for an unknown name."""
    HostSpec.load(name)
    return validate_data({"use": name, "hosts": hosts}, ClusterSpec).build()
