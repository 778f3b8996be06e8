"""Mesh, layouts, strategies and the steps between layouts: values and their algebra, no costs."""

from simcluster.layout.dims import Dims, Window
from simcluster.layout.halo import Halo
from simcluster.layout.layout import Layout
from simcluster.layout.mesh import Mesh, base_axis, restricted
from simcluster.layout.movement import FLAT, Kind, Movement, movements
from simcluster.layout.strategy import Strategy

__all__ = [
    "FLAT",
    "Dims",
    "Halo",
    "Kind",
    "Layout",
    "Mesh",
    "Movement",
    "Strategy",
    "Window",
    "base_axis",
    "movements",
    "restricted",
]
