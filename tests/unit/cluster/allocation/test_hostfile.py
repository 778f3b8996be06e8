"""Open MPI's hostfiles: what they say, and what is wrong in which line."""

from __future__ import annotations

import pytest

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.errors import ScenarioError


def read(folder, text, **more):
    (folder / "hosts").write_text(text)
    return validate_data({"use": "dgx-h100", "hostfile": "hosts"} | more, ClusterSpec, folder=folder)


def test_a_rank_for_every_slot(tmp_path):
    spec = read(tmp_path, "# two of three\nnode2 slots=4 max_slots=8\n\nnode10   slots = 8 # whole\n")
    assert spec.num_devices == 12
    cluster = spec.build()
    assert cluster.num_devices == 12
    assert cluster.devices_of(cluster.devices * 0 + range(12)).tolist() == [0, 1, 2, 3, *range(8, 16)]


def test_whole_hosts_in_order_are_the_plain_cluster(tmp_path):
    assert read(tmp_path, "node2 slots=8\nnode10 slots=8\n").build().whole is None
    swapped = read(tmp_path, "node10 slots=8\nnode2 slots=8\n").build()
    assert swapped.hosts.tolist() == [1, 0]


def test_by_node(tmp_path):
    cluster = read(tmp_path, "a slots=2\nb slots=3\n", map_by="node").build()
    assert cluster.devices.tolist() == [0, 8, 1, 9, 10]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a slots=8\nb", "2:1", "'b' has no slots; write 'b slots=8'"),
        ("a slots=9", "1:3", "9 slots, but dgx-h100 has 8 devices"),
        ("a slots=0", "1:3", "write a number from 1"),
        ("a slots=eight", "1:3", "'eight' are no slots"),
        ("a slot=8", "1:3", "did you mean 'slots'"),
        ("a slots=8 slots=8", "1:3", "'slots' is given twice"),
        ("a slots=8 max_slots=4", "1:11", "8 slots are more than max_slots"),
        ("a slots=8\nb slots=8\n  a slots=8", "3:3", "'a' stands in line 1 already"),
        ("slots=8", "1:1", "begins with the name of a host"),
        ("# nothing", "", "names no host"),
    ],
)
def test_what_is_wrong_and_where(tmp_path, text, place, message):
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.where == str(tmp_path / "hosts") + (place and f":{place}")
    assert message in problem.message


def test_all_lines_are_looked_at(tmp_path):
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, "a\nb\nc slots=1\n")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"hosts": 3}, "1 hosts, but cluster.hosts is 3"),
        ({"msjob": "job.yaml"}, "write one of the two"),
        (
            {"groups": [{"use": "dgx-h100", "hosts": 1}], "use": None},
            "not for all groups: its hosts are equal",
        ),
    ],
)
def test_what_contradicts_the_cluster(tmp_path, more, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, "a slots=8", **more)


def test_only_files_that_leave_it_open_deal_ranks():
    with pytest.raises(ScenarioError, match="hosts of a hostfile or an MSJob"):
        validate_data({"use": "dgx-h100", "hosts": 2, "map_by": "node"}, ClusterSpec)
