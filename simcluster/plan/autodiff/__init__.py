"""Differentiation: backward operators, accumulation of gradients, and the backward pass in two halves."""

from simcluster.plan.autodiff.backward_split import split_backward
from simcluster.plan.autodiff.differentiation import (
    GRADIENT_SUM,
    LOSS_KEY,
    differentiate,
    gradient_name,
    values_needing_gradients,
)
from simcluster.plan.autodiff.flop_count import training_flops
from simcluster.plan.autodiff.gradient_accumulation import ALL, accumulate

__all__ = [
    "ALL",
    "GRADIENT_SUM",
    "LOSS_KEY",
    "accumulate",
    "differentiate",
    "gradient_name",
    "split_backward",
    "training_flops",
    "values_needing_gradients",
]
