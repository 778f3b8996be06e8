"""Differentiation: backward operators, accumulation of gradients, and the backward pass in two halves."""
