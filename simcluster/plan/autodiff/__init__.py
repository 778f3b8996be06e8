"""Differentiation: backward operators, accumulation of gradients, and the backward pass in two halves."""

from simcluster.plan.autodiff.backward_split import split_backward
from simcluster.plan.autodiff.differentiation import (
    GRADIENT_SUM,
    differentiate,
    gradient_name,
    values_needing_gradients,
)
from simcluster.plan.autodiff.gradient_accumulation import ALL, accumulate
from simcluster.plan.autodiff.training_flops import training_flops

__all__ = [
    "ALL",
    "GRADIENT_SUM",
    "accumulate",
    "differentiate",
    "gradient_name",
    "split_backward",
    "training_flops",
    "values_needing_gradients",
]
