"""The note on a mesh whose tensor groups span hosts while another order would keep them inside."""

from __future__ import annotations

import re
from itertools import permutations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Mesh
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate

NOTE = re.compile(r"(\w+) groups span (\d+) (host|pod)s; mesh: \{(.*?)\} would keep each in one")


def scenario(mesh, host="dgx-h100", devices=8, **parallel):
    """A small language model on as many hosts as the mesh needs."""
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "order",
            "cluster": {"host": {"use": host, "devices": devices}, "hosts": prod(mesh.values()) // devices},
            "model": {"layers": 4, "hidden": 256, "heads": 16, "ffn": 512, "vocab": 1024},
            "training": {"global_batch": 64, "micro_batch": 1, "seq_len": 256},
            "parallel": {"mesh": mesh, "recipe": "megatron"} | parallel,
        }
    )


def told(which):
    """The number of hosts and the order in the note; None without a note."""
    found = [match for note in build_scenario(which).plan.notes if (match := NOTE.match(note))]
    assert len(found) < 2
    if not found:
        return None
    order = dict(entry.split(": ") for entry in found[0][4].split(", "))
    return int(found[0][2]), {axis: int(size) for axis, size in order.items()}


def spans(mesh, devices):
    """The most hosts that a tensor group has ranks on."""
    return max(len(set(row)) for row in (Mesh.of(mesh).groups(("tensor",)) // devices).tolist())


def test_the_order_that_is_told_is_faster():
    mesh = {"tensor": 8, "data": 2, "pipeline": 2}
    hosts, order = told(scenario(mesh))
    assert hosts == 4
    assert list(order.items()) == [("data", 2), ("pipeline", 2), ("tensor", 8)]
    first, second = (simulate(scenario(each)).documents["summary"]["step_time_s"] for each in (mesh, order))
    assert second < first
    assert told(scenario(order)) is None


@settings(max_examples=5, deadline=None)
@given(
    st.sampled_from(list(permutations(("tensor", "data", "pipeline")))),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([2, 4, 8]),
)
def test_it_is_told_where_another_order_helps_and_only_there(order, tensor, devices):
    sizes = {"tensor": tensor, "data": 32 // tensor // 2, "pipeline": 2}
    mesh = {axis: sizes[axis] for axis in order}
    found = told(scenario(mesh, devices=devices))
    helps = tensor <= devices and spans(mesh, devices) > 1
    assert (found is not None) == helps
    if found is not None:
        hosts, proposed = found
        assert hosts == spans(mesh, devices)
        assert spans(proposed, devices) == 1
        assert sorted(proposed.items()) == sorted(mesh.items())
        assert [axis for axis in proposed if axis != "tensor"] == [axis for axis in mesh if axis != "tensor"]


def test_nothing_is_said_where_the_network_is_faster_than_what_is_inside():
    """Cards that share PCIe, each host with network cards of its own: a group over eight hosts is faster."""
    model = {"layers": 4, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 16384, "vocab": 1024}
    mesh = {"tensor": 8, "data": 4, "pipeline": 4}
    inside = {"data": 4, "pipeline": 4, "tensor": 8}
    data = scenario(mesh, "l40s-8", recipe="megatron_sp").spec.model_dump(mode="json", exclude_unset=True)
    data |= {"model": model, "training": data["training"] | {"seq_len": 8192}}
    here, there = (
        simulate(Scenario.of(data | {"parallel": data["parallel"] | {"mesh": each}})).documents
        for each in (mesh, inside)
    )
    assert here["summary"]["step_time_s"] < there["summary"]["step_time_s"]
    assert not any(map(NOTE.match, here["plan"]["notes"]))


def test_pods_count_where_hosts_are_joined_to_them():
    """Two hosts of four devices are one pod: its links are as fast as those inside."""
    assert told(scenario({"tensor": 8, "data": 2}, "gb200-nvl72", devices=4)) is None


@pytest.mark.parametrize("axis", ["data", "context", "expert"])
def test_other_axes_are_left_alone(axis):
    extra = {"model": {"layers": 2, "hidden": 64, "heads": 16, "ffn": 128, "vocab": 1024}}
    if axis == "expert":
        extra["model"] = extra["model"] | {"experts": {"count": 8, "top_k": 2, "ffn": 64}}
    mesh = {axis: 8, "pipeline": 2}
    data = scenario(mesh).spec.model_dump(mode="json", exclude_unset=True) | extra
    assert not any(NOTE.match(note) for note in build_scenario(Scenario.of(data)).plan.notes)
