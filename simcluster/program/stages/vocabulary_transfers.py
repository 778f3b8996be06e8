"""What passes between one stage and the layers of which all stages have a slice.

The hidden states that the output layer reads, and the gradients that the embedding reads, are broadcast from
the stage that makes them. Every slice of the embedding makes a term of hidden states, and of the output layer
one of gradients: they are reduced to the stage that reads the sum.
"""

from __future__ import annotations

from simcluster.model import INPUT_LAYER, Instance
from simcluster.program.isa import BlockExecution, Purpose
from simcluster.program.stages.stage_context import StageContext
from simcluster.program.stages.value_names import TERM


def around_pass(
    part: StageContext, instance: Instance, micro_batch: int, *, forward: bool
) -> tuple[list[BlockExecution], list[BlockExecution]]:
    """What a stage runs before and behind a pass of an instance on all stages."""
    block, looked_up = part.graph.block_of(instance), instance.chunk == INPUT_LAYER
    borders = (
        [(value, instance.output(value)) for value in block.outputs]
        if looked_up
        else [*zip(block.inputs, instance.inputs, strict=True)]
    )
    reduced = looked_up == forward
    if looked_up:
        purpose = Purpose.EMBEDDED if forward else Purpose.EMBEDDED_GRADIENTS
    else:
        purpose = Purpose.HIDDEN if forward else Purpose.HIDDEN_GRADIENTS
    runs = []
    for inner, outer in borders:
        if not (forward or inner in block.gradients):
            continue  # nothing in front of it is trained
        value = block.values[inner if forward else block.gradients[inner]]
        name = outer
        if not forward:
            name = part.crossings.gradient_buffer(outer) if looked_up else f"{outer}.grad"
        code = part.codes.rooted_transfer(
            value, instance.stage, purpose, reduced=reduced, at_root=part.stage == instance.stage
        )
        part.names[name, "value"], part.names[name, "part"] = name, f"{name}{TERM}"
        runs.append(BlockExecution(code, name, micro_batch, ""))
    return ([], runs) if reduced else (runs, [])
