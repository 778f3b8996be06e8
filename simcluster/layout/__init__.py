"""Mesh, layouts, strategies and the steps between layouts: values and their algebra, no costs."""

from simcluster.layout.device_matrix import REPEATED, DeviceMatrix, Digit, Side
from simcluster.layout.dims import Dims, Window
from simcluster.layout.halo import Halo
from simcluster.layout.layout import Layout
from simcluster.layout.mesh import Mesh, base_axis, restricted, rooted, unrooted
from simcluster.layout.mindspore import MindSporeLayout
from simcluster.layout.mindspore_redistribution import inferred
from simcluster.layout.movement import FLAT, ROUTED, WRITTEN, Kind, Movement, Route, movements
from simcluster.layout.padding import needed, refusal, zeros
from simcluster.layout.split_mesh import Cut, pieces, spans, uncut, whole, whole_axes
from simcluster.layout.strategy import Strategy

__all__ = [
    "FLAT",
    "REPEATED",
    "ROUTED",
    "WRITTEN",
    "Cut",
    "DeviceMatrix",
    "Digit",
    "Dims",
    "Halo",
    "Kind",
    "Layout",
    "Mesh",
    "MindSporeLayout",
    "Movement",
    "Route",
    "Side",
    "Strategy",
    "Window",
    "base_axis",
    "inferred",
    "movements",
    "needed",
    "pieces",
    "refusal",
    "restricted",
    "rooted",
    "spans",
    "uncut",
    "unrooted",
    "whole",
    "whole_axes",
    "zeros",
]
