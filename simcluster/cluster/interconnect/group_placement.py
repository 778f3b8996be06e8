"""Where the ranks of a group are on the cluster, as far as the time of their collectives depends on it."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect.link import Reach
from simcluster.cluster.interconnect.link_families import Numbers
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupPlacement:
    """Where the ranks of a group are; groups of one placement use equal links in the same pattern."""

    signature: bytes = field(repr=False)
    """Equal for equal placements."""
    ranks: Numbers = field(compare=False)
    """The devices of one such group [n]."""
    host_of: Numbers = field(compare=False, repr=False)
    """The host of each member [n], numbered in order of appearance."""
    pod_of: Numbers = field(compare=False, repr=False)
    """The pod of each member [n], numbered so; a host that belongs to no pod is one."""
    place_of: Numbers = field(compare=False, repr=False)
    """The index of each member's device on its host [n]."""
    rail_of: Numbers = field(compare=False, repr=False)
    """The index of the card at each member's device [n]."""
    num_hosts: int = field(compare=False)
    """Hosts that it lies on."""
    num_pods: int = field(compare=False)
    """Pods that it lies on."""
    ranks_per_host: int = field(compare=False)
    """The most ranks on any of its hosts."""
    fewest_per_host: int = field(compare=False)
    """The fewest ranks on any of its hosts."""
    rails: int = field(compare=False)
    """The least number of different cards at its devices on any host."""
    inside: Reach = field(compare=False)
    """How far its ranks lie apart on one host."""
    between: Reach = field(compare=False)
    """How far its ranks lie apart from host to host."""
    kinds: tuple[int, ...] = field(default=(0,), compare=False)
    """The different kinds of hosts that it lies on, of those that a mixed cluster has."""

    @property
    def num_ranks(self) -> int:
        """Members of the group."""
        return len(self.ranks)


def group_placement_of(
    signature: bytes,
    ranks: Numbers,
    hosts: Numbers,
    pods: Numbers,
    places: Numbers,
    rails: Numbers,
    islands: Numbers | None,
    has_pods: bool,
    kinds: tuple[int, ...] = (0,),
) -> GroupPlacement:
    """The placement of a group whose members lie on these hosts, pods and so on."""
    on_host = np.bincount(hosts)
    pairs = np.unique(np.stack([hosts, rails]), axis=1)
    inside = Reach.HOST
    if islands is not None and np.unique(islands).size == on_host.size:
        inside = Reach.ISLAND
    num_pods = int(pods.max()) + 1
    return GroupPlacement(
        signature,
        ranks,
        hosts,
        pods,
        places,
        rails,
        on_host.size,
        num_pods,
        int(on_host.max()),
        int(on_host.min()),
        int(np.bincount(pairs[0]).min()),
        inside,
        Reach.POD if has_pods and num_pods == 1 else Reach.NETWORK,
        kinds,
    )


def number_by_appearance(values: Numbers) -> Numbers:
    """Each row's values numbered in the order in which they first appear in it, which may be read-only."""
    rows, size = values.shape
    if size == 0:
        return values.copy()
    if rows > 1:
        apart = values - values[:, :1]
        if (apart == apart[:1]).all():  # as groups of a mesh on equal hosts are
            return np.broadcast_to(number_by_appearance(values[:1]), values.shape)
    if (values[:, 1:] >= values[:, :-1]).all():
        steps = np.zeros(values.shape, dtype=np.int64)
        np.cumsum(values[:, 1:] != values[:, :-1], axis=1, out=steps[:, 1:])
        return steps
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    starts = np.ones(values.shape, dtype=np.bool_)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(starts, axis=1) - 1
    first = np.full(values.shape, size, dtype=np.int64)  # where each run's value first stood; size: no run
    row = np.broadcast_to(np.arange(rows)[:, np.newaxis], values.shape)
    first[row[starts], run[starts]] = order[starts]
    number = np.argsort(np.argsort(first, axis=1, kind="stable"), axis=1, kind="stable")
    numbered = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(numbered, order, np.take_along_axis(number, run, axis=1), axis=1)
    return numbered


def distinct_hosts(hosts: Numbers) -> Numbers:
    """The hosts of groups [groups, size] that lie on several; zeros for a group that stays on one."""
    return np.where((hosts == hosts[:, :1]).all(axis=1, keepdims=True), 0, hosts)


def equal_rows(columns: list[Numbers]) -> tuple[NDArray[np.intp], NDArray[np.intp], list[bytes]]:
    """Rows that are equal in all columns: the first of each kind, each row's kind, and the kinds' bytes."""
    count = len(columns[0])
    alike = count > 0 and all(column.strides[0] == 0 or (column == column[:1]).all() for column in columns)
    whole = np.ascontiguousarray(
        np.concatenate([column[:1] if alike else column for column in columns], axis=1).astype(">i4")
    )
    if alike:
        return np.zeros(1, dtype=np.intp), np.zeros(count, dtype=np.intp), [whole.tobytes()]
    keys = whole.view([("row", "V", whole.shape[1] * 4)]).reshape(len(whole))["row"]
    different, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(len(whole)), [bytes(key) for key in different]
