"""Trying changes of a plan by simulation: recomputation, offload and gradient buckets. How a plan is
simulated is handed in.
"""
