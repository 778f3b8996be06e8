"""Every device and host of the catalogs as data: sourced, consistent with itself and with its relatives."""

from __future__ import annotations

import copy
import re
from itertools import pairwise

import numpy as np
import pytest

from simcluster.cluster import (
    ClusterSpec,
    DeviceSpec,
    HostSpec,
    Reach,
    device_names,
    host_names,
    load_cluster,
    load_device,
    load_host,
)
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from tests.support.catalog_figures import figures

ENTRIES = [(DeviceSpec, name) for name in device_names()] + [(HostSpec, name) for name in host_names()]
each_entry = pytest.mark.parametrize(("section", "name"), ENTRIES, ids=[name for _, name in ENTRIES])
each_device = pytest.mark.parametrize("name", device_names())
each_host = pytest.mark.parametrize("name", host_names())


def whole(section, name) -> dict:
    """An entry written out, as if it used no other."""
    return {
        key: copy.deepcopy(part)
        for key, part in section.entry(name).items()
        if key not in ("use", "borrowed")
    }


def places(data, path=()):
    """The key paths of all figures."""
    if isinstance(data, dict) and "value" in data:
        yield path
    elif isinstance(data, (dict, list)):
        for key, part in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(part, (*path, key))


def put(data, path, value):
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


def at(data, path):
    for key in path:
        data = data[key]
    return data


@each_entry
def test_it_is_called_simply(section, name):
    assert re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name)


@each_entry
def test_every_figure_that_loses_its_source_is_refused(section, name):
    entry = whole(section, name)
    validate_data(entry, section, sourced=True)
    found = list(places(entry))
    assert len(found) >= 10
    for number, path in enumerate(found):
        kept = at(entry, path)
        broken, words = (
            (kept["value"], "names no source"),
            ({**kept, "source": " "}, "the source is empty"),
            ({**kept, "provenance": "scenario"}, "is measured, vendor or assumed"),
        )[number % 3]
        put(entry, path, broken)
        with pytest.raises(ScenarioError, match=words):
            validate_data(entry, section, sourced=True)
        put(entry, path, kept)


@each_device
def test_vendor_rates_are_cores_times_clock_times_flops(name):
    spec = DeviceSpec.load(name)
    clock = spec.clock
    if clock is None:
        unknown = ("ascend-910a", "b300-sxm", "gaudi-2", "gaudi-3", "gb300", "h20-sxm")
        assert name in unknown, "say here that its clock is not told"
        return
    cores = spec.cores.value
    checked = 0
    if clock.vector and clock.vector_flops:
        rate = cores * clock.vector.value * clock.vector_flops.value
        assert rate == pytest.approx(spec.vector["fp32"].value, rel=0.01)
        checked += 1
    if clock.matrix and clock.matrix_flops:
        stated = spec.peak.get("bf16") or spec.peak["fp16"]
        assert cores * clock.matrix.value * clock.matrix_flops.value == pytest.approx(stated.value, rel=0.015)
        checked += 1
    assert checked


FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")


@each_device
def test_rates_of_the_dtypes_keep_their_order(name):
    peak = {dtype: figure.value for dtype, figure in DeviceSpec.load(name).peak.items()}
    vector = {dtype: figure.value for dtype, figure in DeviceSpec.load(name).vector.items()}
    gaudi = name.startswith("gaudi")  # its engines multiply bf16 and fp8; wider formats take several passes
    formats = ("fp64", "fp32", "tf32", "bf16", "fp8") if gaudi else FORMATS
    order = [peak[dtype] for dtype in formats if dtype in peak]
    assert order == sorted(order)
    if "tf32" in peak:
        assert peak["tf32"] == pytest.approx(peak["bf16"] / (4 if gaudi else 2), rel=0.02)
    if "fp8" in peak and name != "gaudi-3":  # as fast in bf16 as in fp8
        assert peak["fp8"] == pytest.approx(peak["bf16"] * 2, rel=0.02)
    assert all(rate <= peak[dtype] for dtype, rate in vector.items() if dtype in peak)
    assert "fp32" in vector, "every part computes in fp32, if slowly"


@each_device
def test_memory_is_sane(name):
    device = load_device(name)
    assert 50e9 <= device.memory_bandwidth <= 10e12
    assert 10 * 2**30 <= device.memory <= 2**40
    seconds_to_read_all = device.memory / device.memory_bandwidth
    assert 5e-3 <= seconds_to_read_all <= 10
    flops_per_byte = max(device.peak.values()) / device.memory_bandwidth
    assert 5 <= flops_per_byte <= 2000, "the largest have matrix units for 4 bits"


@each_device
def test_another_part_borrows_its_figures(name):
    """What an entry takes over unchanged stays measured only if it is the same chip."""
    data = DeviceSpec.document(name).data
    if "use" not in data or "borrowed" in data:
        return
    own, base = DeviceSpec.load(name), DeviceSpec.load(data["use"])
    assert (own.kind, own.cores) == (base.kind, base.cores)


@pytest.mark.parametrize(
    ("name", "base", "different"),
    [
        ("a800-sxm-80", "a100-sxm-80", {".links.count", ".gemm.sustained"}),
        ("a800-pcie-80", "a100-pcie-80", set()),
        ("h800-sxm", "h100-sxm", {".links.count", ".peak.fp64", ".vector.fp64"}),
        ("v100-sxm2-32", "v100-sxm2-16", {".memory"}),
        ("v100-sxm3-32", "v100-sxm2-32", {".power.idle", ".power.peak"}),
        ("a100-sxm-40", "a100-sxm-80", {".memory", ".memory_bandwidth"}),
    ],
)
def test_a_variant_differs_in_nothing_else(name, base, different):
    own, other = dict(figures(DeviceSpec.load(name))), dict(figures(DeviceSpec.load(base)))
    assert own.keys() == other.keys()
    assert {path for path in own if own[path] != other[path]} == different


def test_a_borrowed_figure_is_assumed_and_says_of_what():
    own, base = DeviceSpec.sourced("v100-sxm2-16"), DeviceSpec.sourced("a100-sxm-80")
    assert base.attention.backward.provenance == "measured"
    assert own.attention.backward.provenance == "assumed"
    assert own.attention.backward.value == base.attention.backward.value
    assert own.attention.backward.source == (
        f"no table of V100 kernels is published (as a100-sxm-80: {base.attention.backward.source})"
    )
    assert own.memory.provenance == "vendor"


@each_host
def test_affinity_names_every_device(name):
    host = HostSpec.load(name)
    if host.processors and (near := host.processors.numa_of_device):
        assert len(near.value) == host.devices.value
        assert max(near.value) < host.processors.numa_nodes.value
    device_is_the_processor = host.pcie is None
    assert device_is_the_processor == (host.device.kind == "cpu")


@each_host
def test_links_of_a_device_are_not_used_twice(name):
    """No group reaches more inside a host than a device's own links carry, unless it has others."""
    spec, host = HostSpec.load(name), load_host(name)
    own = spec.device.links
    if own is None:
        return
    limit = own.count.value * own.bandwidth.value
    if spec.fabric.bandwidth is None:
        assert host.fabric.rate(host.num_devices) <= limit
    if spec.island and spec.island.bandwidth is None:
        assert host.island.fabric.rate(host.island.num_devices) <= limit
    if spec.pod and spec.pod.bandwidth is None:
        assert host.pod.link.bandwidth == limit == host.fabric.link.bandwidth


def reach_of(host, src, dst):
    """How far two ranks lie apart, by counting."""
    hosts = [rank // host.num_devices for rank in (src, dst)]
    if hosts[0] == hosts[1]:
        island = host.island.num_devices if host.island else 0
        return Reach.ISLAND if island and src // island == dst // island else Reach.HOST
    pods = [number // host.num_hosts_per_pod for number in hosts]
    return Reach.POD if host.pod and pods[0] == pods[1] else Reach.NETWORK


def latency_of(host, reach):
    """Seconds between ranks so far apart, as the host's file says."""
    return carrier(host, reach).latency


def rate_of(host, reach):
    """Bytes/s that two ranks so far apart get of the links between them, as the host's file says."""
    if reach in (Reach.ISLAND, Reach.HOST):
        return (host.island.fabric if reach is Reach.ISLAND else host.fabric).rate(2)
    return carrier(host, reach).rate


def carrier(host, reach):
    match reach:
        case Reach.ISLAND:
            return host.island.fabric.link
        case Reach.HOST:
            return host.fabric.link
        case Reach.POD:
            return host.pod.link
        case _:
            return host.network.link


@each_host
def test_a_wider_group_is_never_faster_to_reach(name):
    """Hops take longer the farther apart two ranks lie, and no hop is free."""
    host = load_host(name)
    per_pod = host.pod.num_hosts if host.pod else 1
    cluster = load_cluster(name, hosts=2 * per_pod)
    farther = sorted({1, host.num_devices // 2, host.num_devices, host.num_devices * per_pod} - {0})
    ways = cluster.topology.routes(np.zeros(len(farther), dtype=np.int64), np.array(farther))
    reaches = [Reach(reach) for reach in ways.reach.tolist()]
    assert reaches == sorted(reaches)
    declared = [latency_of(host, reach) for reach in reaches]
    assert all(near <= far for near, far in pairwise(declared))
    for reach in reaches:
        for algorithm in host.protocols:
            for protocol in host.protocols_of(algorithm):
                assert cluster.hop_over(reach, protocol, (0,)) > 0


@each_host
def test_memory_that_is_not_said_is_never_the_narrowest(name):
    """All devices beside one NUMA node can copy to its memory at once, each as fast as its PCIe lanes."""
    unsaid = {"use": name}
    if HostSpec.load(name).processors is not None:
        unsaid["processors"] = {"memory_bandwidth": None}
    cluster = validate_data({"host": unsaid, "hosts": 1}, ClusterSpec).build()
    host = cluster.host
    if host.pcie is not None:
        families = {family.pattern: family.rate for family in cluster.topology.families}
        beside = [host.numa_of(device) for device in range(host.num_devices)]
        assert families["host.{}.memory.{}.in"] >= max(map(beside.count, beside)) * host.pcie.rate


ONE_CARD = (
    "a100-pcie-8",
    "arc-pro-b60-8",
    "dgx-1v-one-card",
    "hgx-h100-one-card",
    "l40s-8",
    "rtx-pro-6000-8",
)
"""Hosts of two sockets and one network card."""


@each_host
def test_routes_are_as_fast_as_the_links_of_the_host_say(name):
    """Between devices: the latency of their reach, and on a switch or a mesh the rate of its link."""
    hosts = 2 * load_host(name).num_hosts_per_pod
    spec = {"use": name, "hosts": hosts, "network": {"kind": "switch"}}
    cluster = validate_data(spec, ClusterSpec).build()
    topology, devices = cluster.topology, cluster.host.num_devices
    near = np.arange(2 * devices)
    far = np.concatenate([near, np.arange(cluster.num_devices - devices, cluster.num_devices)])
    src, dst = np.repeat(near, far.size), np.tile(far, near.size)
    src, dst = src[src != dst], dst[src != dst]
    found = topology.routes(src, dst)
    reaches = [reach_of(cluster.host, *ends) for ends in zip(src.tolist(), dst.tolist(), strict=True)]
    assert found.reach.tolist() == reaches
    rate = np.where(found.links < 0, np.inf, topology.rates(found.links)).min(axis=1)
    hops = (found.links >= 0).sum(axis=1)
    if name in ONE_CARD:  # it is at the first socket
        across = np.isin(found.links, topology.matching("host.*.sockets.*")).any(axis=1)
        rate[across & (found.reach == Reach.NETWORK)] = cluster.host.network.link.rate
    if name in ("dgx-1v", "dgx-1v-one-card"):  # pairs have one link or two, and some none
        near = hops > 2
        assert set(np.round(rate[~near] / 1e8)) == {225, 450}
        if cluster.host.network.nics == 1:
            return  # most get to the card through another's link to it
        rate, found = rate[near], topology.routes(src[near], dst[near])
        reaches = [reach for reach, kept in zip(reaches, near.tolist(), strict=True) if kept]
    assert found.latency == pytest.approx([latency_of(cluster.host, reach) for reach in reaches])
    assert rate == pytest.approx([rate_of(cluster.host, reach) for reach in reaches])
