"""Mesh, layouts, strategies and the steps between layouts: values and their algebra, no costs."""

from typing import TYPE_CHECKING

from simcluster.layout.axis import (
    base_axis,
    restricted_axis,
    rooted_axis,
    rooted_groups,
    whole,
    whole_axes,
    without_root,
)
from simcluster.layout.device_matrix import REPEATED, DeviceMatrix, Side, SubAxis
from simcluster.layout.dims import Dims, Window
from simcluster.layout.halo import Halo
from simcluster.layout.layout import Layout
from simcluster.layout.mesh import Mesh
from simcluster.layout.movement import (
    FLAT,
    ROUTED,
    Movement,
    MovementKind,
    RoutedTransfer,
    movements,
)
from simcluster.layout.split_mesh import SplitMesh, axis_pieces, spans, unsplit_mesh
from simcluster.layout.strategy import Strategy
from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.layout.mindspore import MindSporeLayout
    from simcluster.layout.mindspore_redistribution import infer_mindspore_sequence
    from simcluster.layout.padding import needed_padding, padding_refusal, zero_padding
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "mindspore": "MindSporeLayout",
            "mindspore_redistribution": "infer_mindspore_sequence",
            "padding": "needed_padding padding_refusal zero_padding",
        },
    )

__all__ = [
    "FLAT",
    "REPEATED",
    "ROUTED",
    "DeviceMatrix",
    "Dims",
    "Halo",
    "Layout",
    "Mesh",
    "MindSporeLayout",
    "Movement",
    "MovementKind",
    "RoutedTransfer",
    "Side",
    "SplitMesh",
    "Strategy",
    "SubAxis",
    "Window",
    "axis_pieces",
    "base_axis",
    "infer_mindspore_sequence",
    "movements",
    "needed_padding",
    "padding_refusal",
    "restricted_axis",
    "rooted_axis",
    "rooted_groups",
    "spans",
    "unsplit_mesh",
    "whole",
    "whole_axes",
    "without_root",
    "zero_padding",
]
