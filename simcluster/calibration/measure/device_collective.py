"""Which collectives are timed between the devices of a host."""

from __future__ import annotations

from simcluster.collectives import Operation
from simcluster.deferred_dataclass import dataclass

OPERATIONS = (
    Operation.ALL_REDUCE,
    Operation.ALL_GATHER,
    Operation.REDUCE_SCATTER,
    Operation.ALL_TO_ALL,
    Operation.SEND_RECEIVE,
)
SIZES = (2**12, 2**16, 2**20, 2**24, 2**28)
SMALL_SIZES = (2**12, 2**16, 2**20, 2**24)
"""Of processes of one processor, which take long for more."""


@dataclass(frozen=True, slots=True)
class DeviceCollective:
    """A collective of the first ``ranks`` devices of a host; ``num_bytes`` counts as in nccl-tests."""

    operation: Operation
    ranks: int
    num_bytes: int

    @property
    def name(self) -> str:
        """A short name for progress and messages."""
        return f"{self.operation} of {self.ranks} x {self.num_bytes:,} B"


def collective_benchmarks(num_devices: int, *, small: bool = False) -> list[DeviceCollective]:
    """Those of two and of all devices, rank count by rank count; none of a single device."""
    groups = sorted({2, num_devices}) if num_devices > 1 else []
    return [
        DeviceCollective(operation, ranks, num_bytes)
        for ranks in groups
        for operation in OPERATIONS
        if operation is not Operation.SEND_RECEIVE or ranks == 2
        for num_bytes in (SMALL_SIZES if small else SIZES)
    ]
