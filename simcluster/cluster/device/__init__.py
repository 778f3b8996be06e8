"""Devices and how long kernels take on them: rooflines of matmuls and attention, rates and curves, prices in
nanoseconds, what communication kernels take of a device.
"""

from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.communication_kernels import SCALE, Communication, Taken
from simcluster.cluster.device.device import Device
from simcluster.cluster.device.device_array import Fleet
from simcluster.cluster.device.dispatch_time import DEVICES_OWN, Dispatch
from simcluster.cluster.device.efficiency_curve import Curve
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.price import Price, nanoseconds
from simcluster.cluster.device.speed import FASTEST, NOMINAL, SLOWEST, Speed

__all__ = [
    "DEVICES_OWN",
    "FASTEST",
    "NOMINAL",
    "SCALE",
    "SLOWEST",
    "AttentionModel",
    "Communication",
    "Curve",
    "Device",
    "Dispatch",
    "Fleet",
    "GemmModel",
    "Price",
    "Speed",
    "Taken",
    "nanoseconds",
]
