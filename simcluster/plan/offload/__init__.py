"""Offload to hosts and disks: activations, gradients, optimizer states, parameters, and operators that run on
hosts.
"""
