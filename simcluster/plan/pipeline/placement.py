"""Pass: places every instance on a pipeline stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.model import Graph, Instance
from simcluster.plan.pipeline.virtual_stages import VirtualStages


def default_layers(num_layers: int, num_stages: int, num_chunks: int = 1) -> tuple[int, ...]:
    """Layers per stage (DESIGN 5), or per virtual stage where each stage has several chunks.

    Equal if they divide; where layers + 2 divide, the first and the last stage have one less (Llama 3 405B:
    126 + 2 = 8 x 16, or 128 x 1: then those two have the embedding, or the head, alone); otherwise the larger
    stages are in the middle. PlanError if another stage would have no layer.
    """
    if num_layers < num_stages and num_layers + 2 != num_stages:
        raise _too_few_layers(num_layers, num_stages // num_chunks, num_chunks)
    whole, extra = divmod(num_layers, num_stages)
    if extra == 0 and num_layers:
        return (whole,) * num_stages
    if num_stages > 2 and (num_layers + 2) % num_stages == 0:
        size = (num_layers + 2) // num_stages
        return (size - 1, *(size,) * (num_stages - 2), size - 1)
    first = (num_stages - extra) // 2
    return tuple(whole + (first <= stage < first + extra) for stage in range(num_stages))


def _too_few_layers(num_layers: int, num_stages: int, num_chunks: int) -> PlanError:
    """What is wrong with more stages, or chunks of them, than layers."""
    if num_chunks == 1:
        return PlanError(
            f"{num_stages} pipeline stages for {num_layers} layers: every stage needs at least one layer",
            path="parallel.mesh.pipeline",
            hint=f"use at most {num_layers} stages",
        )
    fewer = [f"{num_layers // num_stages} chunks"] * (num_layers // num_stages > 1)
    fewer += [f"{num_layers // num_chunks} stages"] * (num_layers >= num_chunks)
    return PlanError(
        f"{num_stages} pipeline stages x {num_chunks} chunks = {num_stages * num_chunks} for {num_layers} "
        "layers: every chunk needs at least one layer",
        path="parallel.mesh.pipeline",
        hint=f"use at most {' or '.join(fewer or ['one chunk'])}",
    )


def written_layers(
    written: tuple[int, ...] | tuple[tuple[int, ...], ...], chain: VirtualStages
) -> tuple[int, ...]:
    """Layers by virtual stage, from a list of stages for every chunk; PlanError for a list of another form.

    With one chunk the inner list alone will do.
    """
    by_chunk = [counts for counts in written if isinstance(counts, tuple)]
    by_stage = [count for count in written if not isinstance(count, tuple)]
    chunks = by_chunk or [tuple(by_stage)]
    if len(chunks) != chain.num_chunks:
        raise PlanError(
            f"the layers of {len(chunks)} chunks are listed, but there are {chain.num_chunks} on every stage",
            path="parallel.schedule.stages",
            hint="write a list of stages for every chunk: [[2, 2], [1, 3]]",
        )
    for of_stages in chunks:
        if len(of_stages) != chain.num_stages:
            raise PlanError(
                f"{len(of_stages)} stages are listed, but the mesh has {chain.num_stages}",
                path="parallel.schedule.stages",
            )
    return chain.by_virtual(chunks)


def place(graph: Graph, layers: Sequence[int], chain: VirtualStages | None = None) -> Graph:
    """The graph with its layers on virtual stages, as many on each as ``layers`` says.

    An instance that reads layers is on the stage of the last of them, one that layers read on the stage of
    the first. What is computed from parameters alone and read on several stages is computed on each of them,
    with tied parameters: that is cheaper than sending it with every micro-batch. Without a ``chain`` every
    stage has one chunk. In inference ``chunk`` of an instance is the pass through the layers that it belongs
    to; every pass is placed by itself.
    """
    chain = chain or VirtualStages.round_robin(len(layers))
    layered = [instance.name for instance in graph.instances if instance.is_pipeline_layer]
    if sum(layers) != len(layered):
        listed = " + ".join(map(str, layers))
        raise PlanError(
            f"{listed} = {sum(layers)} layers in stages, but the model has {len(layered)}",
            path="parallel.schedule.stages",
        )
    if 0 in layers[1:-1] or (layered and not any(layers)):
        raise PlanError(
            "a stage between others has no layer",
            path="parallel.schedule.stages",
            hint="only the first stage, with the embedding, and the last one, with the head, may have none",
        )
    stages = [stage for stage, count in enumerate(layers) for _ in range(count)]
    stage_of = _stages(graph, dict(zip(layered, stages, strict=True)))
    if stages:
        stage_of = _with_ends(stage_of, layered, stages, len(layers) - 1)
    placed = tuple(replace(instance, stage=stage_of[instance.name]) for instance in graph.instances)
    repeated = _repeated(replace(graph, instances=placed))
    places = [chain.places[instance.stage] for instance in repeated.instances]
    return replace(
        repeated,
        instances=tuple(
            replace(instance, stage=stage, chunk=chunk)
            for instance, (stage, chunk) in zip(repeated.instances, places, strict=True)
        ),
    )


def _stages(graph: Graph, of_layer: Mapping[str, int]) -> dict[str, int]:
    """Instance -> virtual stage."""
    makers = {
        (instance.chunk, instance.output(value)): instance.name
        for instance in graph.instances
        for value in graph.block_of(instance).outputs
    }
    # Makers in the same pass: what other passes make comes from where it is.
    read = {
        instance.name: [
            makers[instance.chunk, value] for value in instance.inputs if (instance.chunk, value) in makers
        ]
        for instance in graph.instances
    }
    behind = dict(of_layer)
    for instance in graph.instances:
        before = [behind[maker] for maker in read[instance.name] if maker in behind]
        if before:
            behind.setdefault(instance.name, max(before))
    ahead: dict[str, int] = {}
    for instance in reversed(graph.instances):
        own = behind.get(instance.name, ahead.get(instance.name, 0))
        for maker in read[instance.name]:
            ahead[maker] = min(own, ahead.get(maker, own))
    names = [instance.name for instance in graph.instances]
    return {name: behind.get(name, ahead.get(name, 0)) for name in names}


def _with_ends(
    stage_of: Mapping[str, int], layered: Sequence[str], stages: Sequence[int], last: int
) -> dict[str, int]:
    """Instance -> virtual stage, where the first or the last stage has no layer: what is in front of the
    first layer, or behind the last one, is there.
    """
    moved = {stages[0]: 0, stages[-1]: last}
    if stages[0] == stages[-1]:
        # One stage has all layers: what comes after them in the graph is behind them.
        names = list(stage_of)
        first, behind = names.index(layered[0]), set(names[names.index(layered[-1]) + 1 :])
        ends = dict.fromkeys(names[:first], 0) | dict.fromkeys(behind, last)
        return {name: ends.get(name, stage) for name, stage in stage_of.items()}
    others = set(layered)
    return {name: stage if name in others else moved.get(stage, stage) for name, stage in stage_of.items()}


def _repeated(graph: Graph) -> Graph:
    """The graph with a copy of what is made of parameters alone on every stage that reads it."""
    readers: defaultdict[str, set[int]] = defaultdict(set)
    for instance in graph.instances:
        for value in instance.inputs:
            readers[value].add(instance.stage)
    instances: list[Instance] = []
    ties = [*graph.ties]
    here: dict[tuple[str, int], str] = {}
    for instance in graph.instances:
        inputs = tuple(here.get((value, instance.stage), value) for value in instance.inputs)
        instances.append(replace(instance, inputs=inputs))
        block = graph.block_of(instance)
        if instance.inputs or block.feeds:
            continue
        stages = {stage for value in block.outputs for stage in readers[instance.output(value)]}
        copies = [
            replace(instance, name=f"{instance.name}.{stage}", stage=stage)
            for stage in sorted(stages - {instance.stage})
        ]
        instances += copies
        if copies:
            ties += [
                tuple(f"{member.name}.{name}" for member in (instance, *copies)) for name in block.parameters
            ]
        here |= {
            (instance.output(value), copy.stage): copy.output(value)
            for copy in copies
            for value in block.outputs
        }
    return replace(graph, instances=tuple(instances), ties=tuple(ties))
