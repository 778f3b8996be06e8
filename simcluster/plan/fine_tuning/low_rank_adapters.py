"""Pass: low-rank adapters (LoRA, arXiv 2106.09685): to ``x W`` of a matmul ``alpha / rank * x A B`` is added.

A matmul that several weights share (queries, keys and values) has one A and one B, as Megatron-Bridge's
adapters of fused linear layers do, or an A and a B for each weight that a target names, as PEFT's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name
from simcluster.errors import PlanError, nearest
from simcluster.model import (
    Add,
    Block,
    BlockBuilder,
    Dropout,
    Elementwise,
    Graph,
    Instance,
    Matmul,
    Node,
    Role,
)
from simcluster.plan.fine_tuning.adapter_targets import TARGET_NAMES, LowRankAdapters, is_target

RANK = "rank"
"""What the short dim of A and B is called."""


def add_adapters(graph: Graph, adapters: LowRankAdapters) -> Graph:
    """The forward graph with adapters beside the weights that the targets name.

    PlanError if a target names none.
    """
    idle = dict.fromkeys(adapters.targets)
    chosen: dict[str, tuple[str, ...]] = {}
    for instance in graph.instances:
        stems: list[str] = []
        for node, stem in _stems(graph.block_of(instance)):
            fitting = [
                target for target in adapters.targets if is_target(target, f"{instance.known_as}.{stem}")
            ]
            for target in fitting:
                idle.pop(target, None)
            if fitting and node.name not in stems:
                stems.append(stem)
        chosen[instance.name] = tuple(stems)
    if idle:
        target = next(iter(idle))
        known = dict.fromkeys(map(generalised_name, adapter_targets(graph)))
        raise PlanError(
            f"'{target}' names no weight of a matrix product",
            path=f"training.lora.targets.{adapters.targets.index(target)}",
            hint=nearest(target, known if target in TARGET_NAMES else [*TARGET_NAMES, *known]),
        )

    def rewrite(block: Block, instance: Instance) -> Block:
        stems = chosen[instance.name]
        return _AdaptedBlock(block, adapters, stems).run() if stems else block

    return graph.specialised(
        chosen, rewrite, lambda key, keys: f".lora{keys.index(key) or ''}" if key else ""
    )


def adapter_targets(graph: Graph) -> Iterator[str]:
    """The full names of all that may have an adapter: operators, and each weight of those with several."""
    for instance in graph.instances:
        yield from (f"{instance.known_as}.{stem}" for _, stem in _stems(graph.block_of(instance)))


def _stems(block: Block) -> Iterator[tuple[Node, str]]:
    """What targets may name in a block: a matmul of weights, and each of its weights if they are several."""
    for node in block.nodes:
        weights = node.inputs[1:]
        weighed = all(block.values[weight].role is Role.PARAMETER for weight in weights)
        if isinstance(node.operator, Matmul) and weighed:
            yield node, node.name
            if len(weights) > 1:
                yield from ((node, weight.removesuffix(".weight")) for weight in weights)


@dataclass(slots=True)
class _AdaptedBlock:
    """Writes the adapters of one block."""

    block: Block
    adapters: LowRankAdapters
    stems: Sequence[str]

    def run(self) -> Block:
        """The block with its adapters."""
        kind = next(self.block.values[name].type for name in self.block.parameters)
        build = BlockBuilder(self.block.name, kind.dtype, dict(self.block.values))
        follows: dict[str, str] = {}
        for node in self.block.nodes:
            weights = {weight.removesuffix(".weight"): at for at, weight in enumerate(node.inputs[1:])}
            places: dict[str, tuple[int, ...]] = {
                stem: (at,) for stem, at in weights.items() if stem in self.stems
            }
            if node.name in self.stems:
                places = {node.name: tuple(range(len(weights)))}
            if not places or not isinstance(node.operator, Matmul):
                build.nodes.append(node)
                continue
            adapted = {at for of_stem in places.values() for at in of_stem}
            outputs = tuple(
                f"{value}.frozen" if at in adapted else value for at, value in enumerate(node.outputs)
            )
            build.values |= {new: build.values[old] for new, old in zip(outputs, node.outputs, strict=True)}
            base = replace(node, outputs=outputs)
            build.nodes.append(base)
            first = len(build.nodes)
            for stem, of_stem in places.items():
                self._add(build, stem, node.operator, base, of_stem, node.outputs)
            follows |= {added.name: node.name for added in build.nodes[first:]}
        return replace(
            self.block,
            values=build.values,
            nodes=tuple(build.nodes),
            parameters=(*self.block.parameters, *build.parameters),
            follows=follows,
        )

    def _add(
        self,
        build: BlockBuilder,
        stem: str,
        product: Matmul,
        base: Node,
        places: Sequence[int],
        outputs: Sequence[str],
    ) -> None:
        """An adapter beside some of a product's weights."""
        adapters, x = self.adapters, base.inputs[0]
        extent = {RANK: adapters.rank}
        for labels, value in zip((product.left, *product.rights), base.inputs, strict=True):
            extent.update(zip(labels, build.values[value].type.shape, strict=True))
        right, result = product.rights[places[0]], product.results[places[0]]
        summed = [dim for dim in product.left if dim not in result]
        shared = [dim for dim in right if dim in product.left and dim in result]
        short = (*(dim for dim in product.left if dim in result), RANK)
        if adapters.dropout:
            name = f"{stem}.lora_dropout"
            x = build.add(name, Dropout(product.left, adapters.dropout, name), x)
        first = (*shared, *summed, RANK)
        down = Matmul(product.left, (first,), (short,), grouped=product.grouped)
        weight = build.parameter(f"{stem}.lora_a.weight", [extent[dim] for dim in first])
        y = build.add(f"{stem}.lora_a", down, x, weight)
        seconds = tuple(
            (*shared, RANK, *(dim for dim in product.rights[at] if dim not in product.left)) for at in places
        )
        results = tuple(product.results[at] for at in places)
        up = Matmul(short, seconds, results, grouped=product.grouped)
        parts = [_part(base.inputs[1 + at].removesuffix(".weight"), stem, len(places)) for at in places]
        weights = [
            build.parameter(
                f"{stem}.lora_b.{part}.weight" if part else f"{stem}.lora_b.weight",
                [extent[dim] for dim in labels],
            )
            for part, labels in zip(parts, seconds, strict=True)
        ]
        made = build.adds(f"{stem}.lora_b", up, y, *weights)
        scale = ((1, adapters.alpha / adapters.rank),)
        for part, value, at, labels in zip(parts, made, places, results, strict=True):
            named = f"{stem}.{part}" if part else stem
            scaled = build.add(f"{named}.lora_scale", Elementwise("mul", (labels,), labels, scale), value)
            build.nodes.append(Node(f"{named}.lora", Add(labels), (base.outputs[at], scaled), (outputs[at],)))


def _part(weight: str, stem: str, num_weights: int) -> str:
    """What tells the parts of an adapter of several weights apart."""
    return "" if num_weights == 1 else weight.removeprefix(f"{stem}.").rpartition(".")[2]
