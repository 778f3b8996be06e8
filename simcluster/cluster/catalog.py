"""The shipped devices and hosts, by name, read when they are asked for."""

from __future__ import annotations

from functools import cache

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.device import Device
from simcluster.cluster.device_spec import DeviceSpec
from simcluster.cluster.entry import DEVICES, HOSTS, document, names
from simcluster.cluster.host import Host
from simcluster.cluster.spec import ClusterSpec, HostSpec
from simcluster.document import validate, validate_data
from simcluster.errors import ScenarioError, nearest


def device_names() -> tuple[str, ...]:
    """The names of the shipped devices, sorted."""
    return names(DEVICES)


def host_names() -> tuple[str, ...]:
    """The names of the shipped hosts, sorted."""
    return names(HOSTS)


@cache
def device_spec(name: str) -> DeviceSpec:
    """The file of a shipped device; ScenarioError for an unknown name, or if a figure has no source."""
    _known(name, "device", device_names())
    return validate(document(DEVICES, name), DeviceSpec, sourced=True)


@cache
def host_spec(name: str) -> HostSpec:
    """The file of a shipped host; ScenarioError for an unknown name, or if a figure has no source."""
    _known(name, "host", host_names())
    return validate(document(HOSTS, name), HostSpec, sourced=True)


@cache
def load_device(name: str) -> Device:
    """A shipped device, one object per name; ScenarioError, with the nearest name, if there is none."""
    device_spec(name)
    return validate_data({"use": name}, DeviceSpec).build()


@cache
def load_host(name: str) -> Host:
    """A shipped host, one object per name; ScenarioError, with the nearest name, if there is none."""
    host_spec(name)
    return validate_data({"use": name}, HostSpec).build()


def load_cluster(name: str, hosts: int = 1) -> Cluster:
    """``hosts`` shipped hosts of one kind; ScenarioError for an unknown name."""
    host_spec(name)
    return validate_data({"use": name, "hosts": hosts}, ClusterSpec).build()


def _known(name: str, kind: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ScenarioError(f"unknown {kind} '{name}'", hint=nearest(name, known))
