"""Megatron's arguments, and those of its forks and launchers."""

from simcluster.foreign.megatron import combined_arguments, nemo_arguments
from simcluster.foreign.megatron.arguments import MARKS, PROFILED, ZERO, meaning_of
from simcluster.foreign.megatron.entry_script import program
from simcluster.foreign.megatron.fork_arguments import FORK_MEANINGS, partition
from simcluster.foreign.megatron.host_offload import offload
from simcluster.foreign.megatron.launcher import understand_launcher
from simcluster.foreign.megatron.model_families import FAMILY_MEANINGS, structure

__all__ = [
    "FAMILY_MEANINGS",
    "FORK_MEANINGS",
    "MARKS",
    "PROFILED",
    "ZERO",
    "combined_arguments",
    "meaning_of",
    "nemo_arguments",
    "offload",
    "partition",
    "program",
    "structure",
    "understand_launcher",
]
