"""A host file from measured collectives and copies, and from what the operating system says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.calibration.measure.device_collective import DeviceCollective
from simcluster.calibration.measure.device_measurement import (
    DeviceMeasurement,
    measured_by,
    measured_figure,
)
from simcluster.calibration.measure.processor_facts import ProcessorFacts
from simcluster.calibration.optimiser import minimise
from simcluster.cluster import Cluster, ClusterSpec, HostSpec, host_names
from simcluster.collectives import Operation, collective_time
from simcluster.deferred_dataclass import dataclass
from simcluster.document import validate_data
from simcluster.errors import Problem, ScenarioError

Timed = Sequence[tuple[DeviceCollective, float]]
LEAST, MOST = 0.01, 1000.0
"""How far costs and rates of a host's protocols may be from those of the one it starts from: processes of a
processor meet through sockets of the operating system."""

USUAL_SHARE = 0.8
"""Of what is between two processes of a processor the share that its protocol reaches before it is fitted."""


@dataclass(frozen=True, slots=True)
class HostFit:
    """A host's file as ``data``, and of every collective that was timed measured and predicted seconds."""

    data: dict[str, Any]
    compared: tuple[tuple[DeviceCollective, float, float], ...]


def host_like(device: str, num_devices: int) -> str:
    """The host of the catalog with this device and at least so many: the one with the nearest number.

    Raises ScenarioError if no host has the device.
    """
    having = []
    for name in host_names():
        entry = HostSpec.expanded(name)
        own = entry["device"] if isinstance(entry["device"], str) else entry["device"].get("use")
        if own == device:
            away = abs(entry["devices"]["value"] - num_devices)
            having.append((away, HostSpec.document(name).data.get("use") is not None, name))
    if not having:
        raise ScenarioError(
            Problem(f"no host of the catalog has {device}", hint="name one: --like-host dgx-h100")
        )
    return min(having)[-1]


def measured_host(
    measured: DeviceMeasurement,
    device: Mapping[str, Any],
    facts: ProcessorFacts,
    like: str,
    *,
    processor: bool = False,
) -> HostFit:
    """The host of the catalog called ``like`` with what was found here; ``device`` is its device's file.

    Two figures are fitted to the collectives: by how much costs of a step, and by how much rates of all
    protocols differ from those it starts from.
    """
    source = measured_by(measured)
    data: dict[str, Any] = {
        "title": f"{measured.num_devices} x {measured.device}",
        "use": like,
        "device": dict(device),
        "devices": measured_figure(measured.num_devices, "the devices that PyTorch sees"),
        "memory": measured_figure(f"{facts.memory / 2**30:.4g} GiB", "the operating system"),
        "processors": _processors(measured.num_devices, facts, processor=processor),
    }
    if measured.to_device and measured.from_device:
        rate = min(measured.to_device, measured.from_device)
        data["pcie"] = {
            "bandwidth": measured_figure(f"{rate / 1e9:.4g} GB/s", f"{source}, pinned memory"),
            "efficiency": measured_figure(1.0, "the bandwidth is what copies reach"),
        }
    timed = [(benchmark, seconds) for benchmark, seconds in measured.collectives if seconds]
    if not timed:
        return HostFit(data, ())
    if processor:
        fastest = max(benchmark.num_bytes / seconds for benchmark, seconds in timed)
        data["fabric"] = {"bandwidth": measured_figure(f"{fastest / USUAL_SHARE / 1e9:.4g} GB/s", source)}
    protocols = HostSpec.expanded({"use": like})["collectives"]

    def made(values: Sequence[float]) -> dict[str, Any]:
        costs, rates = values
        return {**data, "collectives": _scaled(protocols, costs, rates, source)}

    def cost(values: Sequence[float]) -> float:
        compared = _compared(made(values), timed)
        return sum(abs(math.log(predicted / seconds)) for _, seconds, predicted in compared) / len(timed)

    best = made(minimise(cost, (1.0, 1.0), (1.0, 0.5), ((LEAST, MOST), (LEAST, 1 / USUAL_SHARE))))
    return HostFit(best, tuple(_compared(best, timed)))


def _processors(num_devices: int, facts: ProcessorFacts, *, processor: bool) -> dict[str, Any]:
    said = "the operating system"
    figures = {"model": measured_figure(facts.model, said), "cores": measured_figure(facts.cores, said)}
    if processor:
        near = [number * facts.numa_nodes // num_devices for number in range(num_devices)]
        figures |= {
            "sockets": measured_figure(facts.sockets, said),
            "numa_nodes": measured_figure(facts.numa_nodes, said),
            "numa_of_device": measured_figure(near, "processes spread evenly"),
        }
    return figures


def _scaled(protocols: Mapping[str, Any], costs: float, rates: float, source: str) -> dict[str, Any]:
    """The protocols of a host file with other costs of a step and another share inside a host."""
    return {
        algorithm: {
            name: measured_figure(_protocol(figure["value"], costs, rates), source)
            for name, figure in known.items()
        }
        for algorithm, known in protocols.items()
    }


def _protocol(written: Mapping[str, Any], costs: float, rates: float) -> dict[str, Any]:
    made = dict(written)
    for name in ("base", "host_hop"):
        number, unit = str(written[name]).split()
        made[name] = f"{float(number) * costs:.4g} {unit}"
    made["host_share"] = float(f"{min(1.0, written['host_share'] * rates):.4g}")
    return made


def _compared(data: Mapping[str, Any], timed: Timed) -> list[tuple[DeviceCollective, float, float]]:
    cluster: Cluster = validate_data({"host": dict(data), "hosts": 1}, ClusterSpec).build()
    return [
        (benchmark, seconds, _predicted(benchmark.operation, benchmark.ranks, benchmark.num_bytes, cluster))
        for benchmark, seconds in timed
    ]


def _predicted(operation: Operation, ranks: int, num_bytes: int, cluster: Cluster) -> float:
    return collective_time(operation, cluster.placement(range(ranks)), num_bytes, cluster).seconds
