"""Options of batch schedulers: comments such as ``#SBATCH --nodes=4``, and arguments of ``sbatch``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from simcluster.foreign.reading.shell.field import Field, Script, TextPiece

_COMMENT = re.compile(r"#(?:SBATCH|BSUB|PBS)\s+(.*)")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_NODES = re.compile(r"(?:--nodes|-N)[=\s]*([0-9]+)")
_TASKS = re.compile(r"--ntasks-per-node[=\s]*([0-9]+)")
_GPUS = re.compile(r"--gpus-per-node[=\s]*(?:[A-Za-z0-9_]+:)?([0-9]+)")


def batch_fields(text: str, script: Script) -> list[Field]:
    """The words of the comments by which a scheduler is told of nodes and tasks, and of ``sbatch`` itself.

    Variables count in those of a script that another one writes.
    """

    def filled(variable: re.Match[str]) -> str:
        values = script.values.get(variable[1], [])
        return values[0].text if len(values) == 1 and not values[0].missing else variable[0]

    fields = list(script.submitted)
    for number, line in _comments(text):
        fields += [Field((TextPiece(word, number),)) for word in _VARIABLE.sub(filled, line).split()]
    return fields


def scheduled_variables(text: str) -> dict[str, tuple[str, int]]:
    """Variables that Slurm sets for a script by what its comments ask for: (value, line) by name."""
    known: dict[str, tuple[str, int]] = {}
    for number, line in _comments(text):
        for pattern, names in (
            (_NODES, ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")),
            (_TASKS, ("SLURM_NTASKS_PER_NODE",)),
            (_GPUS, ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")),
        ):
            if count := pattern.search(line):
                known |= dict.fromkeys(names, (count[1], number))
    if {"SLURM_NNODES", "SLURM_NTASKS_PER_NODE"} <= known.keys():
        (nodes, line_of_nodes), (tasks, _) = known["SLURM_NNODES"], known["SLURM_NTASKS_PER_NODE"]
        total = (str(int(nodes) * int(tasks)), line_of_nodes)
        known |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), total)
    return known


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if match := _COMMENT.match(line.strip()):
            yield number, match[1].partition(" #")[0]
