"""Rank tables: what each rule refuses, where it says so, and what is only advised against."""

from __future__ import annotations

import json

import pytest

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.errors import ScenarioError


def table(servers=2, devices=8, first=0):
    """A table as MindSpore's documents have it, of version 1.0."""
    return {
        "version": "1.0",
        "server_count": str(servers),
        "server_list": [
            {
                "server_id": f"10.0.0.{at + 1}",
                "host_nic_ip": "reserve",
                "device": [
                    {
                        "device_id": str(first + no),
                        "device_ip": f"192.{no % 4 + 1}.27.{6 + 2 * at + no // 4}",
                        "rank_id": str(at * devices + no),
                    }
                    for no in range(devices)
                ],
            }
            for at in range(servers)
        ],
        "status": "completed",
    }


def pods(names=("a", "a", "b")):
    """A table of version 1.2, of servers in super-pods of these names."""
    made = table(len(names), 16) | {"version": "1.2"}
    for number, server in enumerate(made["server_list"]):
        for no, device in enumerate(server["device"]):
            device["super_device_id"] = str(16 * number + no)
            device["device_ip"] = f"192.{no}.27.{number}"
    made["super_pod_list"] = [
        {
            "super_pod_id": name,
            "server_list": [
                {"server_id": f"10.0.0.{at + 1}"} for at, other in enumerate(names) if other == name
            ],
        }
        for name in dict.fromkeys(names)
    ]
    return made


def read(folder, written, **more):
    text = written if isinstance(written, str) else json.dumps(written, indent=1)
    (folder / "hccl.json").write_text(text)
    data = {"use": "atlas-800", "rank_table": "hccl.json"} | more
    return validate_data(data, ClusterSpec, folder=folder)


def device(made, server, number):
    return made["server_list"][server]["device"][number]


def changed(path, value, made=None):
    """A table with a value at a JSON path, or without it for None."""
    made = made or table()
    *keys, last = path
    part = made
    for key in keys:
        part = part[key]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return made


DEVICE = ("server_list", 1, "device", 3)


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        (("status",), "initializing", "status", "still 'initializing' cannot be used"),
        (("status",), "ready", "status", "completed"),
        (("version",), "2.0", "version", "1.0"),
        (("version",), None, "version", "'version' is missing"),
        (("server_count",), "3", "server_count", "server_count is 3, but there are 2"),
        (("server_count",), None, "server_count", "'server_count' is missing"),
        (("server_count",), 2, "server_count", "text"),
        (("server_list", 1, "server_id"), "10.0.0.1", "server_list[1].server_id", "is given twice, first at"),
        (("server_list", 1, "server_id"), "x" * 65, "server_list[1].server_id", "at most 64"),
        (("server_list", 1, "host_ip"), "nowhere", "server_list[1].host_ip", "not an IP address"),
        (("server_list", 1, "gpu"), "0", "server_list[1].gpu", "unknown key 'gpu'"),
        (("server_list", 1, "device"), [], "server_list[1].device", "at least 1"),
        ((*DEVICE, "device_id"), "2", "server_list[1].device[3].device_id", "device_id 2 is given twice"),
        ((*DEVICE, "device_id"), "8", "server_list[1].device[3].device_id", "atlas-800 has 8"),
        ((*DEVICE, "rank_id"), "9" * 5000, "server_list[1].device[3].rank_id", "not a number from 0"),
        ((*DEVICE, "device_id"), "-1", "server_list[1].device[3].device_id", "not a number from 0"),
        ((*DEVICE, "device_ip"), "192.1.27.6", "server_list[1].device[3].device_ip", "is given twice"),
        ((*DEVICE, "device_ip"), "192.1.27", "server_list[1].device[3].device_ip", "not an IP address"),
        ((*DEVICE, "device_ip"), None, "server_list[1].device[3]", "the 910A needs it"),
        ((*DEVICE, "device_port"), "70000", "server_list[1].device[3].device_port", "not a port"),
        ((*DEVICE, "rank_id"), "3", "server_list[1].device[3].rank_id", "rank_id 3 is given twice"),
        ((*DEVICE, "rank_id"), "16", "server_list[1].device[3].rank_id", "ranks are 0 to 15"),
        ((*DEVICE, "super_device_id"), "0", "server_list[1].device[3].super_device_id", "version 1.2"),
    ],
)
def test_what_is_wrong_and_where(tmp_path, path, value, where, message):
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, changed(path, value))
    texts = [str(problem) for problem in caught.value.problems]
    assert any(where in text and message in text for text in texts), texts
    assert all("hccl.json:" in problem.where for problem in caught.value.problems)


def test_all_mistakes_are_told_at_once_with_line_and_column(tmp_path):
    made = changed((*DEVICE, "rank_id"), "3", changed(("server_count",), "3"))
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, made)
    places = [problem.where.partition("hccl.json:")[2] for problem in caught.value.problems]
    assert places == ["3:18 server_count", "73:17 server_list[1].device[3].rank_id"]


def test_ranks_of_servers_may_not_interleave(tmp_path):
    made = table()
    device(made, 0, 7)["rank_id"], device(made, 1, 0)["rank_id"] = "8", "7"
    with pytest.raises(ScenarioError, match="may not interleave: this one has 0, 1, 2, 3, 4, 5, 6, 8"):
        read(tmp_path, made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is not JSON"),
        ("[]", "not a rank table|lines of 'key: value'"),
        ('{"version": "1.0", "version": "1.0"}', "duplicate key .version."),
        ('{"group_list": []}', "old template"),
        ("", "not JSON"),
    ],
)
def test_what_is_no_rank_table(tmp_path, text, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((0, 1, 2), "3 devices; jobs on the 910A have 1, 2, 4 or 8"),
        ((0, 4), "jobs of 2 devices on the 910A stay inside 0-3 or 4-7"),
        ((2, 3, 4, 5), "stay inside 0-3 or 4-7"),
    ],
)
def test_the_910a_has_groups_of_four(tmp_path, ids, message):
    made = table(1, len(ids))
    for number, own in enumerate(ids):
        device(made, 0, number)["device_id"] = str(own)
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, made)
    assert read(tmp_path, made, use="atlas-800t-a2").num_devices == len(ids)


def test_servers_of_the_910a_are_equally_full(tmp_path):
    made = table()
    made["server_list"][1]["device"] = made["server_list"][1]["device"][:4]
    with pytest.raises(ScenarioError, match="4 devices, but 8 of the first server"):
        read(tmp_path, made)
    spec = read(tmp_path, made, use="atlas-800t-a2")
    assert spec.allocation.notes == ("servers should have equally many devices (constraints.md)",)
    assert spec.num_devices == spec.build().num_devices == 12


def test_one_server_of_the_a2_needs_no_addresses(tmp_path):
    made = table(1)
    for number in range(8):
        del device(made, 0, number)["device_ip"]
    assert read(tmp_path, made, use="atlas-800t-a2").num_devices == 8
    two = table()
    del device(two, 1, 0)["device_ip"]
    with pytest.raises(ScenarioError, match="several servers need it"):
        read(tmp_path, two, use="atlas-800t-a2")


def test_what_is_advised_against(tmp_path):
    made = table(3)
    device(made, 0, 0)["device_port"] = "1000"
    made["server_list"][0]["server_id"] = "10.0.0.9"
    assert read(tmp_path, made).allocation.notes == (
        "ranks should follow the dictionary order of server ids (rank_table.md); they do not",
        "3 servers: a power of two is best on the 910A (constraints.md)",
        "device_port 1000: those up to 1023 should be avoided",
    )


def test_super_pods(tmp_path):
    spec = read(tmp_path, pods(), use="cloudmatrix-384")
    cluster = spec.build()
    assert spec.num_devices == cluster.num_devices == 48
    # Two servers share a pod, the third stands in another, whose first host is the 48th.
    assert cluster.hosts.tolist() == [0, 1, 48]
    assert cluster.placement([0, 16]).num_pods == 1
    assert cluster.placement([0, 32]).num_pods == 2


def test_without_super_pods_servers_are_alone(tmp_path):
    made = pods()
    del made["super_pod_list"]
    spec = read(tmp_path, made, use="cloudmatrix-384")
    assert spec.build().hosts.tolist() == [0, 48, 96]
    assert (
        "no super_pod_list: servers reach each other by the network only (server mode)"
        in spec.allocation.notes
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("super_pod_list", 0, "server_list", 0, "server_id"), "x", "there is no server 'x' in server_list"),
        (("super_pod_list", 1, "server_list", 0, "server_id"), "10.0.0.1", "is in super-pod 'a' already"),
        (("super_pod_list", 1, "super_pod_id"), "a", "super_pod_id a is given twice"),
        (("server_list", 0, "device", 3, "super_device_id"), "4", "super_device_id 4 is given twice"),
        (("server_list", 0, "device", 3, "super_device_id"), None, "'super_device_id' is missing"),
    ],
)
def test_rules_of_super_pods(tmp_path, path, value, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, changed(path, value, pods()), use="cloudmatrix-384")


def test_servers_of_a_super_pod_are_next_to_each_other(tmp_path):
    with pytest.raises(ScenarioError, match="super-pod 'a' are not next to each other"):
        read(tmp_path, pods(("a", "b", "a")), use="cloudmatrix-384")


@pytest.mark.parametrize(
    ("written", "more", "message"),
    [
        (table(), {"use": "dgx-h100"}, "a rank table is for Ascend devices, not for h100-sxm"),
        (table(), {"hosts": 3}, "2 servers, but cluster.hosts is 3"),
        (table(), {"map_by": "node"}, "says itself which rank has which device"),
        (table(), {"own_hosts": "0"}, "names the hosts already"),
        (table(), {"hostfile": "hosts"}, "says where ranks are already; write one of the two"),
        (table(), {"rank_table": "hcc.json"}, "did you mean"),
        (pods(), {"use": "atlas-800t-a2"}, "has no super-pods"),
        (pods(["a"] * 49), {"use": "cloudmatrix-384"}, "a super-pod of cloudmatrix-384 has 48"),
    ],
)
def test_what_contradicts_the_cluster(tmp_path, written, more, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, written, **more)


def test_hosts_may_be_said_too(tmp_path):
    assert read(tmp_path, table(), hosts=2).build().whole is None
