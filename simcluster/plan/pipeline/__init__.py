"""Pipeline parallelism: virtual stages, the layers on them, and timetables of their actions."""

from simcluster.plan.pipeline.action import (
    BACKWARD,
    FORWARD,
    INPUTS,
    RECOMPUTE,
    WEIGHTS,
    Action,
    Timetable,
    parse,
    render,
)
from simcluster.plan.pipeline.interleaved_order import ChunksInSlices, in_cycles, interleaved, spread
from simcluster.plan.pipeline.placement import default_layers, place, written_layers
from simcluster.plan.pipeline.schedule import Schedule, forward_only, peaks, splits
from simcluster.plan.pipeline.v_shape import Line
from simcluster.plan.pipeline.virtual_stages import Chain
from simcluster.plan.pipeline.zero_bubble_order import late_weights

__all__ = [
    "BACKWARD",
    "FORWARD",
    "INPUTS",
    "RECOMPUTE",
    "WEIGHTS",
    "Action",
    "Chain",
    "ChunksInSlices",
    "Line",
    "Schedule",
    "Timetable",
    "default_layers",
    "forward_only",
    "in_cycles",
    "interleaved",
    "late_weights",
    "parse",
    "peaks",
    "place",
    "render",
    "splits",
    "spread",
    "written_layers",
]
