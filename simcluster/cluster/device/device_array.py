"""Many devices of one kind, each at its own speed, priced in one array operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from simcluster.cluster.device.device import Device
from simcluster.cluster.device.kernel_time import body_seconds, waits_for_memory
from simcluster.cluster.device.rates import Rate
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats, Ints
from simcluster.work import DType, Work


@dataclass(frozen=True, slots=True)
class DeviceArrayPrice:
    """The ``Price`` of an operator on every device: arrays [devices]."""

    busy_ns: Ints
    host_ns: Ints
    memory_ns: Ints

    @property
    def total_ns(self) -> Ints:
        """Nanoseconds from the operator's start to its end; at least 1."""
        return self.busy_ns + self.host_ns


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """Devices as ``device``, at the factors [devices] on its rates of ``compute`` and ``memory_bandwidth``.

    Whatever it gives equals, to the nanosecond, what ``device.at(speed)`` gives for each of the speeds.
    """

    device: Device
    compute: Floats
    bandwidth: Floats
    _rates: dict[str, Mapping[DType, Rate]] = field(default_factory=dict, init=False, repr=False)
    _bodies: dict[Work, Rate] = field(default_factory=dict, init=False, repr=False)
    _prices: dict[tuple[tuple[Work, ...], float], DeviceArrayPrice] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def peak(self) -> Mapping[DType, Rate]:
        """FLOP/s of the matrix units by dtype."""
        return self._scaled("peak", self.device.peak)

    @property
    def vector(self) -> Mapping[DType, Rate]:
        """FLOP/s of the other units by dtype."""
        return self._scaled("vector", self.device.vector)

    @property
    def memory_bandwidth(self) -> Rate:
        """Bytes/s."""
        return self.device.memory_bandwidth * self.bandwidth

    def price(self, works: Sequence[Work], dispatch: float | None = None) -> DeviceArrayPrice:
        """The time of an operator on every device: see ``Device.price``."""
        floor = self.device.dispatch if dispatch is None else dispatch
        key = (tuple(works), floor)
        price = self._prices.get(key)
        if price is None:
            price = self._prices[key] = self._price(works, floor)
        return price

    def _price(self, works: Sequence[Work], floor: float) -> DeviceArrayPrice:
        # The sum begins at 0 and goes in order, as for one device.
        bodies = [(work, self._body(work)) for work in works]
        body = np.broadcast_to(sum((seconds for _, seconds in bodies), 0.0), self.compute.shape)
        total = np.maximum(1, _nanoseconds(np.maximum(body + len(works) * self.device.launch, floor)))
        busy = np.minimum(_nanoseconds(body), total)
        streamed = sum(
            (kernel * waits_for_memory(work, kernel, self.device, self) for work, kernel in bodies), 0.0
        )
        memory = np.broadcast_to(np.minimum(_nanoseconds(np.asarray(streamed)), busy), busy.shape)
        return DeviceArrayPrice(busy, total - busy, memory)

    def _body(self, work: Work) -> Rate:
        if work not in self._bodies:
            self._bodies[work] = body_seconds(work, self.device, self)
        return self._bodies[work]

    def _scaled(self, name: str, rates: Mapping[DType, float]) -> Mapping[DType, Rate]:
        if name not in self._rates:
            self._rates[name] = {dtype: rate * self.compute for dtype, rate in rates.items()}
        return self._rates[name]


def _nanoseconds(seconds: Floats) -> Ints:
    """As ``price.nanoseconds``: rounded half to even."""
    return np.rint(seconds * 1e9).astype(np.int64)
