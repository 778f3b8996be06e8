"""Pass: recomputation in a phase of its own, for schedules that run it as an action (R3).

It has all recomputed operators that read no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.errors import PlanError, Problem
from simcluster.model import Block, Graph, Phase
from simcluster.plan.pipeline import RECOMPUTE, Action, Timetable
from simcluster.plan.recompute.selective_recompute import SUFFIX

PATH = "parallel.schedule"


def separate_recompute_phase(graph: Graph, timetables: Sequence[Timetable]) -> Graph:
    """The graph with recomputation in its own phase, if a timetable has such actions; the last pass.

    PlanError if a stage with such an action recomputes nothing, or gathers weights or fetches offloaded
    values for every backward.
    """
    asked: dict[tuple[int, int], Action] = {}
    for stage, actions in (numbered for timetable in timetables for numbered in enumerate(timetable)):
        for half in (half for action in actions for half in action.parts if half.kind == RECOMPUTE):
            asked.setdefault((stage, half.chunk), half)
    if not asked:
        return graph
    separated = graph.with_blocks({name: _apart(block) for name, block in graph.blocks.items()})
    having = {
        (instance.stage, instance.chunk)
        for instance in separated.instances
        if any(separated.block_of(instance).phase(Phase.RECOMPUTE))
    }
    problems = [
        Problem(
            f"{half} on stage {stage} has nothing to do: nothing is computed again there",
            PATH,
            "choose layers or operators in parallel.recompute, or leave it out",
        )
        for (stage, chunk), half in asked.items()
        if (stage, chunk) not in having
    ]
    moved = (Phase.GATHER, Phase.REGATHER, Phase.FETCH)
    nodes = [node for block in graph.blocks.values() for node in block.nodes]
    if any(node.phase in moved or node.piece for node in nodes):
        half = next(iter(asked.values()))
        problems.append(
            Problem(
                f"{half}: what is gathered or fetched for every backward, or runs as a graph, is not there "
                "ahead of it",
                PATH,
                "leave it out: backwards compute again what they read",
            )
        )
    if problems:
        raise PlanError(*problems)
    return separated


def _apart(block: Block) -> Block:
    """The block with the copies of forward operators that read nothing of the backward in a phase before."""
    later: set[str] = set()
    first, rest = [], []
    for node in block.nodes:
        if node.phase is Phase.BACKWARD and node.name.endswith(SUFFIX) and later.isdisjoint(node.inputs):
            first.append(replace(node, phase=Phase.RECOMPUTE))
            continue
        if node.phase in (Phase.BACKWARD, Phase.WEIGHTS):
            later.update(node.outputs)
        rest.append(node)
    if not first:
        return block
    place = next(index for index, node in enumerate(rest) if node.phase in (Phase.BACKWARD, Phase.WEIGHTS))
    return replace(block, nodes=(*rest[:place], *first, *rest[place:]))
