"""What moving the keys of parameter servers takes, on the links between their hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.job import KeyMoves, KeysMoved
from simcluster.plan import ServedParameter, ServerPlan, rows_of_servers, server_of_key


@dataclass(frozen=True)
class LinkKeyMoves(KeyMoves):
    """Keys that go over the routes of a cluster, all at once: the link that is busy longest decides.

    Nothing else is on the links meanwhile, since workers wait; latencies are left out beside it.
    """

    num_workers: int
    num_servers: int
    dense: tuple[int, ...]
    """Bytes of every dense key, by number: weights, master copy, optimizer states."""
    tables: tuple[tuple[int, int], ...]
    """(rows, bytes of a row) of every table."""
    pulled: tuple[int, ...]
    """Bytes that a worker pulls of every dense key, by number."""
    routes: Mapping[tuple[int, int], tuple[int, ...]]
    """Links from the device of a server to that of another server or a worker."""
    rates: Mapping[int, float]
    """Bytes/s of these links."""

    @classmethod
    def of(cls, servers: ServerPlan, cluster: Cluster) -> LinkKeyMoves:
        """Those of a plan on its cluster."""
        forward = tuple(reversed(servers.parameters))
        dense = [parameter for parameter in forward if not parameter.is_table]
        tables = [parameter for parameter in forward if parameter.is_table]
        first, last = servers.num_workers, servers.num_workers + servers.num_servers
        pairs = [(src, dst) for src in range(first, last) for dst in range(last) if src != dst]
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        routes = cluster.topology.routes(cluster.devices_of(ends[:, 0]), cluster.devices_of(ends[:, 1]))
        used = np.unique(routes.links[routes.links >= 0])
        return cls(
            servers.num_workers,
            servers.num_servers,
            tuple(_held_bytes(parameter, parameter.value.type.num_elements) for parameter in dense),
            tuple(
                (parameter.value.type.shape[0], _held_bytes(parameter, parameter.row_elements))
                for parameter in tables
            ),
            tuple(parameter.value.type.num_bytes for parameter in dense),
            {
                pair: tuple(link for link in links if link >= 0)
                for pair, links in zip(pairs, routes.links.tolist(), strict=True)
            },
            dict(zip(used.tolist(), cluster.topology.rates(used).tolist(), strict=True)),
        )

    def moved(self, before: frozenset[int], after: frozenset[int], failed: frozenset[int]) -> KeysMoved:
        """Every key from the server that has it to the one that is to have it."""
        sizes: Counter[tuple[int, int]] = Counter()
        for source, target, size in self._moves(self._present(before), self._present(after)):
            if source != target and source not in failed:
                sizes[source, target] += size
        return KeysMoved(sum(sizes.values()), self._seconds(sizes))

    def pull_s(self, workers: Collection[int], absent: frozenset[int]) -> float:
        """Every worker pulls all dense keys; rows of tables are pulled in every step anyway."""
        present = self._present(absent)
        sizes: Counter[tuple[int, int]] = Counter()
        for number, size in enumerate(self.pulled):
            sizes.update({(server_of_key(number, present), worker): size for worker in workers})
        return self._seconds(sizes)

    def _present(self, absent: frozenset[int]) -> list[int]:
        servers = range(self.num_workers, self.num_workers + self.num_servers)
        return [server for server in servers if server not in absent]

    def _moves(self, before: list[int], after: list[int]) -> Iterator[tuple[int, int, int]]:
        """(from, to, bytes) of keys and of runs of rows."""
        for number, size in enumerate(self.dense):
            yield server_of_key(number, before), server_of_key(number, after), size
        for rows, row_bytes in self.tables:
            for source, first, count in rows_of_servers(rows, before):
                for target, start, length in rows_of_servers(rows, after):
                    common = min(first + count, start + length) - max(first, start)
                    if common > 0:
                        yield source, target, common * row_bytes

    def _seconds(self, sizes: Mapping[tuple[int, int], int]) -> float:
        loads: Counter[int] = Counter()
        for pair, size in sizes.items():
            loads.update(dict.fromkeys(self.routes[pair], size))
        return max(_times(loads, self.rates), default=0.0)


def _times(loads: Mapping[int, int], rates: Mapping[int, float]) -> Iterable[float]:
    return (load / rates[link] for link, load in loads.items())


def _held_bytes(parameter: ServedParameter, elements: int) -> int:
    """Bytes of so many elements of a key on a server: weights, master copy, optimizer states."""
    formats = [parameter.value.type.dtype, *parameter.states.values()]
    if parameter.master is not None:
        formats.append(parameter.master)
    return sum(dtype.num_bytes(elements) for dtype in formats)
