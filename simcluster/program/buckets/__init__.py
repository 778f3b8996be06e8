"""Gradients and weights that travel together: gradient buckets, FSDP gathers and scatters, when a reduction
is due, tied parameters.
"""
