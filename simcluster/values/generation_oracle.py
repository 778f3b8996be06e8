"""The oracle of generation: one device that reads every sequence again, whole, for each of its tokens.

It has no cache and no passes: it evaluates the graph that training would differentiate, up to its logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Array, Graph, Operator, Phase, Region
from simcluster.values.source import SeededData

TOKENS = "tokens"
"""What models call the feed of what they read."""


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """What makes a token: the logits [batch, vocab] of the last one, and the likeliest ids [batch]."""

    logits: Array
    ids: Array


@dataclass(frozen=True)
class GenerationOracle:
    """Generates ``tokens`` tokens, of ``known`` ones, with the forward ``graph`` of sequences of a length."""

    graph: Callable[[int], Graph]
    source: SeededData
    prompt: int
    tokens: int
    known: int

    def run(self, micro_batch: int) -> Iterator[GeneratedToken]:
        """The tokens of a micro-batch one by one."""
        sequences: Array | None = None
        for number in range(self.tokens):
            graph = self.graph(self.prompt + number)
            if sequences is None:
                block = graph.block_of(graph.instances[0])
                feed = block.values[TOKENS]
                sequences = self.source.feed(TOKENS, feed.type, 0, micro_batch, feed.num_ids)
            logits = self._last_logits(graph, sequences, micro_batch)
            ids = logits[:, : self.known].argmax(axis=-1)
            yield GeneratedToken(logits, ids)
            sequences = np.concatenate([sequences, ids[:, None]], axis=1)

    def _last_logits(self, graph: Graph, sequences: Array, micro_batch: int) -> Array:
        """What the loss would read of the last tokens."""
        crossing: dict[str, Array] = {}
        for instance in graph.instances:
            block = graph.block_of(instance)
            bound = zip(block.inputs, instance.inputs, strict=True)
            values = {inner: crossing[outer] for inner, outer in bound}
            values |= {name: sequences for name in block.feeds if name == TOKENS}
            for name in block.parameters:
                full = graph.canonical(f"{instance.name}.{name}")
                values[name] = self.source.parameter(full, block.values[name].type)
            region = Region({}, 1, self.source.seed, instance.name, micro_batch)
            for node in block.phase(Phase.FORWARD):
                if block.loss in node.outputs:
                    return np.asarray(values[node.inputs[0]][:, -1])
                assert isinstance(node.operator, Operator)
                made = node.operator.evaluate([values[name] for name in node.inputs], region)
                values.update(zip(node.outputs, made, strict=True))
            crossing.update({instance.output(name): values[name] for name in block.outputs})
        raise ValueError("a graph that generates has a loss, which reads its logits")
