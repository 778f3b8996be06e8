"""What the host spends on launching operators."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.cluster.device.device import Device


@dataclass(frozen=True, slots=True)
class DispatchTime:
    """Host time per operator: ``times`` the device's own figure, or as many ``seconds`` if they are given."""

    times: float = 1.0
    seconds: float | None = None

    def of(self, device: Device) -> float:
        """Seconds of host time for one operator on a device."""
        return self.times * (device.dispatch if self.seconds is None else self.seconds)


DEVICES_OWN = DispatchTime()
"""As the files of devices have it."""
