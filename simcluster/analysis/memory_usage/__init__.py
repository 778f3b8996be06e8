"""Allocations and releases over time, peak memory, a replay of the caching allocator, what is alive at the
peak, memory of hosts, and whether a plan fits.
"""
