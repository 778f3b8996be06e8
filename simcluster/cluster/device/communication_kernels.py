"""What the kernels of communication take of a device while they run: units, and memory bandwidth."""

from __future__ import annotations

from simcluster.cluster.interconnect import GroupPlacement, Reach
from simcluster.deferred_dataclass import dataclass

SCALE = 1_000_000
"""Shares of a device are whole millionths: then sums of them, and what they leave, are exact."""

ADDS = frozenset({"reduce_scatter", "reduce"})
"""Operations that add as they carry; an all-reduce does so half of the way."""


@dataclass(frozen=True, slots=True)
class ResourceShare:
    """Shares of a device's units and of its memory bandwidth, in millionths."""

    units: int
    memory: int


@dataclass(frozen=True, slots=True)
class CommunicationKernels:
    """What communication takes of a device whose library runs it as kernels.

    ``inside`` and ``network``: the share of the device's units that a collective or transfer holds from its
    start to its end: ``network`` where only network cards carry it, ``inside`` where the links between
    devices do too. ``copied`` and ``added``: bytes that pass the
    device's memory for each byte that it sends, of an operation that only moves and of one that adds.
    """

    inside: float
    network: float
    copied: float
    added: float

    def units(self, placement: GroupPlacement) -> int:
        """The share of the units that an operation holds, in millionths."""
        only_cards = placement.ranks_per_host == 1 and placement.between is Reach.NETWORK
        return round((self.network if only_cards and placement.num_hosts > 1 else self.inside) * SCALE)

    def traffic(self, operation: str, sent: float, seconds: float) -> float:
        """Bytes/s that pass the device's memory."""
        return self._traffic(operation) * sent / seconds if seconds > 0 else 0.0

    def _traffic(self, operation: str) -> float:
        if operation == "all_reduce":
            return (self.copied + self.added) / 2
        if operation == "send_receive":
            return self.copied / 2  # each end either reads or writes
        return self.added if operation in ADDS else self.copied
