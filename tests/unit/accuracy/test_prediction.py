"""Predictions of published rows: on which host, of what, and against which measured time."""

from __future__ import annotations

import re

import pytest

from simcluster.accuracy import MeasuredRow, known_hardware, predict
from simcluster.cluster import load_cluster
from simcluster.collectives import Operation, collective_time
from simcluster.errors import ScenarioError


def row(operation="all_reduce", hardware="H100 SXM (NVLink4)", devices=8, hosts=1, size=2**20, **more):
    given = {"seconds": 1e-3, "algbw": None, "busbw": None, "notes": "", "source": "lab"} | more
    return MeasuredRow(
        line=2,
        name="a",
        operation=operation,
        hardware=hardware,
        num_devices=devices,
        num_hosts=hosts,
        num_bytes=size,
        **given,
    )


def one(*args, cluster=None, **more):
    (found,) = predict([row(*args, **more)], cluster)
    return found


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"])
def test_it_is_the_time_of_the_collective(name):
    cluster = load_cluster("dgx-h100", 2)
    found = one(name, devices=16, hosts=2)
    choice = collective_time(Operation(name), cluster.placement(range(16)), 2**20, cluster)
    assert found.predicted == choice.seconds
    assert (found.cluster, found.how) == ("dgx-h100", f"{choice.algorithm} {choice.protocol}")
    assert found.error == pytest.approx(choice.seconds / 1e-3 - 1)


def test_nccl_tests_writes_two_of_them_as_one_word():
    assert one("alltoall").predicted == one("all_to_all").predicted
    assert one("sendrecv", devices=2).predicted == one("send_receive", devices=2).predicted


def test_a_ring_of_transfers_is_as_slow_as_its_slowest_pair():
    assert one("sendrecv", devices=8).predicted == one("sendrecv", devices=2).predicted
    across = one("sendrecv", devices=16, hosts=2).predicted
    assert across == one("sendrecv", devices=2, hosts=2).predicted > one("sendrecv", devices=2).predicted


def test_part_of_each_host():
    cluster = load_cluster("dgx-h100", 2)
    choice = collective_time(
        Operation.ALL_REDUCE, cluster.placement([0, 1, 2, 3, 8, 9, 10, 11]), 2**20, cluster, "ring"
    )
    assert one(devices=8, hosts=2, notes="NCCL_ALGO=RING").predicted == choice.seconds


def test_a_measured_rate_is_a_time():
    assert one(seconds=None, algbw=2.0**30).measured == pytest.approx(2**-10)
    assert one(seconds=None, busbw=1.75 * 2**30).measured == pytest.approx(2**-10)
    assert one(seconds=None, busbw=1e9, algbw=2.0**30).measured == pytest.approx(2**-10)


def test_a_copy_from_the_host_is_its_link():
    link = load_cluster("dgx-h100").host.pcie
    assert one("h2d", devices=1).predicted == pytest.approx(link.latency + 2**20 / link.rate)


def test_sizes_of_one_rank_count_for_all():
    words = "x; CAUTION: oneCCL benchmark size is the per-rank send buffer here"
    b60 = "Intel Arc Pro B60 (PCIe, oneCCL)"
    per_rank = one("all_gather", b60, devices=4, notes=words)
    assert per_rank.predicted == one("all_gather", b60, devices=4, size=2**22).predicted
    assert per_rank.measured == 1e-3
    rated = one("all_gather", b60, devices=4, notes=words, seconds=None, algbw=1e9)
    assert rated.measured == pytest.approx(2**22 / 1e9)


def test_bytes_that_went_through_the_network_cards():
    cluster = load_cluster("atlas-800t-a2", 2)
    ascend = "Ascend 910B (Atlas A2)"
    choice = collective_time(Operation.SEND_RECEIVE, cluster.placement([0, 8]), 2**20, cluster)
    assert one("sendrecv", ascend, devices=2, notes="RDMA inside a node").predicted == choice.seconds
    assert one("sendrecv", ascend, devices=2, notes="HCCS").predicted != choice.seconds
    pods = load_cluster("cloudmatrix-384", 49)
    choice = collective_time(Operation.SEND_RECEIVE, pods.placement([0, 48 * 16]), 2**20, pods)
    assert one("sendrecv", "Ascend 910C", devices=2, hosts=2, notes="RDMA").predicted == choice.seconds


def test_the_ranks_sit_where_the_table_says():
    cluster = load_cluster("cloudmatrix-384")
    choice = collective_time(Operation.SEND_RECEIVE, cluster.placement([0, 2]), 2**20, cluster)
    assert one("sendrecv", "Ascend 910C (Atlas A3)", devices=2).predicted == choice.seconds


def test_another_host_for_all_rows():
    found = one(hardware="something new", cluster="dgx-a100")
    assert (found.cluster, found.reason) == ("dgx-a100", "")
    assert found.predicted == one(hardware="A100 SXM").predicted
    with pytest.raises(ScenarioError, match="there is no host 'dgx-a101'") as caught:
        one(cluster="dgx-a101")
    assert "did you mean 'dgx-a100'" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hardware": "TPU v5p"}, "no host of the catalog matches the hardware 'TPU v5p'"),
        ({"operation": "nvme_read"}, "'nvme_read' is not an operation"),
        ({"devices": 10, "hosts": 4}, "do not spread evenly"),
        ({"devices": 32, "hosts": 2}, "more devices to a host than dgx-h100 has"),
        ({"devices": 1}, "all_reduce of one device"),
    ],
)
def test_what_cannot_be_predicted_says_why(given, words):
    found = one(**given)
    assert words in found.reason
    assert found.predicted == 0.0


def test_every_entry_of_the_table_says_why_and_can_be_met():
    """No entry is hidden behind an earlier one: its own words, without stars, lead to it, or to its host."""
    for entry in known_hardware():
        assert len(entry.why) > 10
        said = (re.sub(r"\{([^,]*),[^}]*\}", r"\1", text) for text in (entry.words, entry.notes, entry.link))
        words, notes, link = (text.replace("*", "") for text in said)
        met = next(other for other in known_hardware() if other.fits(words, notes, link))
        assert met == entry or met.cluster == entry.cluster


@pytest.mark.parametrize(
    ("words", "devices", "cards", "rate"),
    [
        ("100GbE", 8, "1 x 100 Gbps", 12.5e9),
        ("4x200G NICs", 8, "4 x 200 Gbps", 100e9),
        ("8x200G", 8, None, 200e9),
        ("100 Gb/s per GPU", 8, "4 x 200 Gbps", 100e9),
        ("4x200G NICs", 4, None, 100e9),
    ],
)
def test_a_network_that_the_words_state_is_the_one_between_hosts(words, devices, cards, rate):
    """A ring sends (n - 1) / n of the bytes into each host twice."""
    size = 1 << 32
    found = one(
        hardware=f"A100 SXM ({words})", devices=2 * devices, hosts=2, size=size, notes="NCCL_ALGO=RING"
    )
    assert found.how.partition(" over ")[2] == (cards or "")
    bound = 2 * (2 * devices - 1) / (2 * devices) * size / rate
    assert bound < found.predicted < 1.35 * bound
    assert (
        one(hardware=f"A100 SXM ({words})", size=size).predicted
        == one(hardware="A100 SXM", size=size).predicted
    )
