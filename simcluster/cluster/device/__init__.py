"""Devices and how long kernels take on them: rooflines of matmuls and attention, rates and curves, prices in
nanoseconds, what communication kernels take of a device.
"""
