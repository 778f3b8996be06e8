"""The recomputation of a small plan: each layer takes that of the layer of the large plan in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from simcluster.document import matches
from simcluster.model import Graph, Instance, Phase
from simcluster.plan import Plan, RecomputeSpec, VirtualStages, recomputed_layers


def small_recompute(plan: Plan, small: Graph, layers: Sequence[int], chain: VirtualStages) -> RecomputeSpec:
    """The section for a small model's graph with so many layers on every virtual stage of a chain, what was
    chosen written out.

    The first layers of a virtual stage stand for the first, the last one for the last.
    """
    spec = plan.recompute
    if spec.nothing or (spec.layers == "all" and not spec.operators):
        return spec
    whole = recomputed_layers(plan.logical, spec.layers)
    known = {f"{instance.name}.{node.name}" for instance, node in small.nodes()}
    names: list[str] = []
    chosen: dict[str, list[str]] = {"operators": [], "keep_outputs": []}
    for name, stands in _standing(plan.logical, small, layers, chain):
        if stands.name in whole:
            names.append(name)
        for node in plan.logical.block_of(stands).phase(Phase.FORWARD):
            full = f"{name}.{node.name}"
            for key, patterns in (("operators", spec.operators), ("keep_outputs", spec.keep_outputs)):
                if any(matches(pattern, f"{stands.name}.{node.name}") for pattern in patterns):
                    chosen[key] += [full] if full in known else []
    update = {key: tuple(operators) for key, operators in chosen.items()}
    return spec.model_copy(update={"layers": tuple(names) or "none", **update})


def _standing(
    large: Graph, small: Graph, layers: Sequence[int], chain: VirtualStages
) -> Iterator[tuple[str, Instance]]:
    """Instance of the small graph -> the one of the large graph that it stands for."""
    by_name = {instance.name: instance for instance in large.instances}
    pieces: defaultdict[tuple[int, int], list[Instance]] = defaultdict(list)
    for instance in large.instances:
        if instance.is_pipeline_layer:
            pieces[instance.stage, instance.chunk].append(instance)
    last = max(stage for stage, _ in pieces)
    ends = [pieces[stage if stage < chain.num_stages - 1 else last, chunk] for stage, chunk in chain.places]
    chosen = [
        layers_here[-1] if index and index == count - 1 else layers_here[index]
        for layers_here, count in zip(ends, layers, strict=True)
        for index in range(count)
    ]
    stand_ins = iter(chosen)
    for instance in small.instances:
        if instance.is_pipeline_layer:
            yield instance.name, next(stand_ins)
        elif instance.name in by_name:
            yield instance.name, by_name[instance.name]
