"""Devices and how long kernels take on them: rooflines of matmuls and attention, rates and curves, prices in
nanoseconds, what communication kernels take of a device.
"""

from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.communication_kernels import SCALE, CommunicationKernels, ResourceShare
from simcluster.cluster.device.device import DEVICES_OWN, Device, DispatchTime
from simcluster.cluster.device.device_array import DeviceArray
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.power import PowerModel
from simcluster.cluster.device.rates import (
    FASTEST,
    NOMINAL,
    SLOWEST,
    DeviceSpeed,
    EfficiencyCurve,
    Price,
    nanoseconds,
)

__all__ = [
    "DEVICES_OWN",
    "FASTEST",
    "NOMINAL",
    "SCALE",
    "SLOWEST",
    "AttentionModel",
    "CommunicationKernels",
    "Device",
    "DeviceArray",
    "DeviceSpeed",
    "DispatchTime",
    "EfficiencyCurve",
    "GemmModel",
    "PowerModel",
    "Price",
    "ResourceShare",
    "nanoseconds",
]
