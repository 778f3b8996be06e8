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
from simcluster.plan.pipeline.interleaved_order import (
    ChunkedSchedule,
    SlicedSchedule,
    interleaved_actions,
    sliced_interleaved_actions,
    spread_rounds,
)
from simcluster.plan.pipeline.paired_actions import in_pairs
from simcluster.plan.pipeline.placement import default_layers, place, written_layers
from simcluster.plan.pipeline.schedule import Schedule, activation_peaks, forward_only, has_split_backward
from simcluster.plan.pipeline.v_shape import StageActions
from simcluster.plan.pipeline.virtual_stages import VirtualStages
from simcluster.plan.pipeline.vocabulary import VocabularyMethod, spread_vocabulary
from simcluster.plan.pipeline.vocabulary_order import vocabulary_actions
from simcluster.plan.pipeline.zero_bubble_order import zero_bubble_actions

__all__ = [
    "BACKWARD",
    "FORWARD",
    "INPUTS",
    "RECOMPUTE",
    "WEIGHTS",
    "Action",
    "ChunkedSchedule",
    "Schedule",
    "SlicedSchedule",
    "StageActions",
    "Timetable",
    "VirtualStages",
    "VocabularyMethod",
    "activation_peaks",
    "default_layers",
    "forward_only",
    "has_split_backward",
    "in_pairs",
    "interleaved_actions",
    "parse",
    "place",
    "render",
    "sliced_interleaved_actions",
    "spread_rounds",
    "spread_vocabulary",
    "vocabulary_actions",
    "written_layers",
    "zero_bubble_actions",
]
