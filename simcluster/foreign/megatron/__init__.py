"""Megatron's arguments, and those of its forks and launchers."""

from simcluster.foreign.megatron import combined_arguments, nemo_arguments
from simcluster.foreign.megatron.arguments import MARKS, PROFILED, meaning_of
from simcluster.foreign.megatron.deepspeed_mixture import state_deepspeed_mixture
from simcluster.foreign.megatron.entry_script import state_program
from simcluster.foreign.megatron.fork_arguments import (
    FORK_MEANINGS,
    state_partition,
    state_pending_backwards,
    state_reinforcement,
)
from simcluster.foreign.megatron.host_offload import state_megatron_offload
from simcluster.foreign.megatron.launcher import state_launcher
from simcluster.foreign.megatron.model_families import FAMILY_MEANINGS, state_family_structure
from simcluster.foreign.megatron.pipeline_layout import state_layout, state_noop_layers
from simcluster.foreign.megatron.python_recipes import recipe_flags
from simcluster.foreign.megatron.swift_arguments import (
    refuse_swift_rewards,
    state_swift_launch,
    swift_launch,
    swift_launch_meaning,
)

__all__ = [
    "FAMILY_MEANINGS",
    "FORK_MEANINGS",
    "MARKS",
    "PROFILED",
    "combined_arguments",
    "meaning_of",
    "nemo_arguments",
    "recipe_flags",
    "refuse_swift_rewards",
    "state_deepspeed_mixture",
    "state_family_structure",
    "state_launcher",
    "state_layout",
    "state_megatron_offload",
    "state_noop_layers",
    "state_partition",
    "state_pending_backwards",
    "state_program",
    "state_reinforcement",
    "state_swift_launch",
    "swift_launch",
    "swift_launch_meaning",
]
