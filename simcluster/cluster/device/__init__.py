"""Devices and how long kernels take on them: rooflines of matmuls and attention, rates and curves, prices in
nanoseconds, what communication kernels take of a device.
"""

from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.communication_kernels import SCALE, CommunicationKernels, ResourceShare
from simcluster.cluster.device.device import Device
from simcluster.cluster.device.device_array import DeviceArray
from simcluster.cluster.device.dispatch_time import DEVICES_OWN, DispatchTime
from simcluster.cluster.device.efficiency_curve import EfficiencyCurve
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.price import Price, nanoseconds
from simcluster.cluster.device.speed import FASTEST, NOMINAL, SLOWEST, DeviceSpeed

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
    "Price",
    "ResourceShare",
    "nanoseconds",
]
