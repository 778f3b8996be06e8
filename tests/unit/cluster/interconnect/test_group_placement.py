from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Reach, load_cluster
from simcluster.cluster.interconnect.group_placement import number_by_appearance


@given(st.integers(1, 5), st.data())
def test_values_are_numbered_as_they_appear(size, data):
    row = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    wanted = [[list(dict.fromkeys(row)).index(value) for value in row] for row in rows]
    assert number_by_appearance(np.array(rows)).tolist() == wanted


def test_groups_that_lie_alike_are_one_placement():
    cluster = load_cluster("dgx-h100", hosts=8)
    groups = np.array([[0, 1, 8, 9], [16, 17, 24, 25], [2, 3, 10, 11], [8, 9, 0, 1], [0, 1, 2, 8]])
    found, index = cluster.placements(groups)
    assert len(found) == 2 and index[0] == index[1] == index[2] == index[3]
    mine = found[index[0]]
    assert mine == cluster.placement([40, 41, 56, 57])
    assert mine.host_of.tolist() == [0, 0, 1, 1] and mine.place_of.tolist() == [0, 1, 0, 1]
    assert (mine.num_ranks, mine.num_hosts, mine.ranks_per_host, mine.rails) == (4, 2, 2, 2)
    assert found[index[4]].fewest_per_host == 1 and found[index[4]].rails == 1


def test_reaches_of_islands_and_pods():
    two = load_cluster("atlas-800", hosts=2)
    assert two.placement([0, 3]).inside is Reach.ISLAND
    assert two.placement([0, 4]).inside is Reach.HOST
    assert two.placement([0, 4, 8, 9]).inside is Reach.HOST
    assert two.placement([0, 3, 8, 9]).inside is Reach.ISLAND
    racks = load_cluster("gb200-nvl72", hosts=36)
    assert racks.placement([0, 71]).between is Reach.POD
    wide = racks.placement([0, 70, 72])
    assert wide.between is Reach.NETWORK and wide.pod_of.tolist() == [0, 0, 1] and wide.num_pods == 2


@given(st.sampled_from(["dgx-h100", "dgx-1v", "gb200-nvl72", "atlas-800"]), st.data())
@settings(max_examples=40)
def test_a_placement_is_what_counting_finds(name, data):
    cluster = load_cluster(name, hosts=36)
    host = cluster.host
    ranks = sorted(data.draw(st.sets(st.integers(0, cluster.num_devices - 1), min_size=1, max_size=12)))
    size, nics = host.num_devices, host.network.nics
    by_host = {
        number: [rank for rank in ranks if rank // size == number] for number in {r // size for r in ranks}
    }
    mine = cluster.placement(ranks)
    assert mine.num_hosts == len(by_host)
    assert mine.ranks_per_host == max(map(len, by_host.values()))
    assert mine.fewest_per_host == min(map(len, by_host.values()))
    cards = [{rank % size * nics // size for rank in part} for part in by_host.values()]
    assert mine.rails == min(map(len, cards))
    island = host.island.num_devices if host.island else 0
    on_one = island and all(len({rank // island for rank in part}) == 1 for part in by_host.values())
    assert mine.inside is (Reach.ISLAND if on_one else Reach.HOST)
    pods = {number // (host.pod.num_hosts if host.pod else 1) for number in by_host}
    assert mine.num_pods == len(pods)
    assert mine.between is (Reach.POD if host.pod and len(pods) == 1 else Reach.NETWORK)
