"""Small Programs for tests: a pipeline of stages that burn a known time, on a cluster without overheads.

One FLOP of an elementwise kernel takes one nanosecond, links take next to no time unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.document import validate_data
from simcluster.layout import Dims, Layout, Mesh
from simcluster.model import Block, Graph, Instance, Node, Operator, Phase, Role, TensorType, Value
from simcluster.plan.data.batch_shares import MicroBatches
from simcluster.plan.pass_list import PassList
from simcluster.plan.pipeline.schedule import Timetable
from simcluster.plan.pipeline.virtual_stages import VirtualStages
from simcluster.plan.plan import PipelinePlan, Placement, Plan
from simcluster.plan.precision.formats import Numerics
from simcluster.plan.strategies.assignment import Strategies
from simcluster.program import Program, build
from simcluster.work import DType, Kernel, Work

KIND = TensorType((4,), DType.FP32)


@dataclass(frozen=True)
class Burn(Operator):
    """Takes ``time`` nanoseconds and passes its input on, plus one."""

    time: int
    inputs: int = 1
    kind = "burn"
    family = "burn"

    def infer(self, inputs):
        return (KIND,)

    def dims(self):
        return Dims((("x",),) * self.inputs, (("x",),))

    def work(self, inputs, outputs, *, accumulate=False):
        return (Work(Kernel.ELEMENTWISE, DType.FP32, self.time, 0, 0),)

    def evaluate(self, inputs, region):
        return (np.asarray(inputs[0] + 1.0),)


def quiet_cluster(
    hosts: int, devices: int = 1, *, bandwidth: str = "1000 PB/s", latency: str = "0 s"
) -> Cluster:
    """Hosts whose kernels take what their FLOPs say; ``bandwidth`` and ``latency`` are the network's."""
    free = {"bandwidth": "1000 PB/s", "efficiency": 1.0, "latency": "0 s"}
    protocol = {
        "base": "0 s",
        "host_hop": "0 s",
        "network_hop": latency,
        "host_share": 1.0,
        "network_share": 1.0,
    }
    host = {
        "use": "cpu-server",
        "devices": devices,
        "device": {
            "use": "xeon-8480",
            "vector": {"fp32": "1 GFLOP/s"},
            "memory_bandwidth": "1000 PB/s",
            "launch": "0 s",
            "dispatch": "0 s",
        },
        "fabric": {"wiring": "switch", **free},
        "network": {"nics": devices, "bandwidth": bandwidth, "efficiency": 1.0, "latency": "0 s"},
        "collectives": {
            "default": {"plain": protocol},
            "pairwise": {"plain": protocol},
            "direct": {"plain": protocol},
        },
    }
    spec = validate_data({"host": host, "hosts": hosts}, ClusterSpec)
    return spec.build()


def burning_graph(
    forward: Sequence[int],
    backward: Sequence[int],
    chain: VirtualStages | None = None,
    weights: int = 0,
    slices: int = 1,
) -> Graph:
    """One instance per virtual stage and slice; its forward takes ``forward[v]`` ns, its backward
    ``backward[v]``.

    With ``weights`` its backward has a second half, which takes so many.
    """
    last = len(forward) - 1
    chain = chain or VirtualStages.round_robin(len(forward))
    blocks = {}
    instances = []
    for stage, (there, back) in enumerate(zip(forward, backward, strict=True)):
        value = Value(KIND, layout=Layout.replicated(1))
        grad = Value(KIND, Role.GRADIENT, Layout.replicated(1))
        nodes = [
            Node("there", Burn(there), ("in",), ("out",), Phase.FORWARD),
            Node("back", Burn(back, 2), ("in", "out.grad"), ("in.grad",), Phase.BACKWARD, origin="there"),
        ]
        values = {"in": value, "out": value, "in.grad": grad, "out.grad": grad}
        inputs, outputs, feeds = ("in",), ("out",), ()
        gradients = {"in": "in.grad", "out": "out.grad"}
        if stage == 0:
            values["in"] = Value(KIND, Role.FEED, Layout.replicated(1))
            inputs, feeds, gradients = (), ("in",), {"out": "out.grad"}
        if stage == last:
            outputs = ()
            gradients.pop("out")
            nodes[1] = Node(
                "back", Burn(back, 2), ("in", "out"), ("in.grad",), Phase.BACKWARD, origin="there"
            )
            values.pop("out.grad")
        if weights:
            values["used"] = grad
            nodes.append(
                Node("late", Burn(weights, 2), nodes[1].inputs, ("used",), Phase.WEIGHTS, origin="there")
            )
        name = f"stage{stage}"
        blocks[name] = Block(name, feeds, inputs, outputs, (), values, tuple(nodes), gradients)
        for part in range(slices):
            own, first = (f" (slice {part})", name) if part else ("", "")
            before = (f"stage{stage - 1}{own}:out",) if stage else ()
            place = chain.places[stage]
            instances.append(Instance(f"{name}{own}", name, before, *place, slice=part, first_slice=first))
    return Graph(blocks, tuple(instances))


def burning_program(
    forward: Sequence[int],
    backward: Sequence[int],
    timetable: Timetable,
    *,
    overlapped: bool = True,
    chain: VirtualStages | None = None,
    weights: int = 0,
    slices: int = 1,
) -> Program:
    """The pipeline's Program, one rank per stage."""
    mesh = Mesh.of({"pipeline": len(timetable)})
    graph = burning_graph(forward, backward, chain, weights, slices)
    return build(plan_of(graph, (timetable,), mesh, chain=chain, overlapped=overlapped))


def plan_of(
    graph: Graph,
    timetables: Sequence[Timetable],
    mesh: Mesh,
    *,
    chain: VirtualStages | None = None,
    overlapped: bool = True,
    batches: MicroBatches | None = None,
) -> Plan:
    """A plan of nothing but a graph and timetables, as many as ``batches`` has numbers of micro-batches."""
    return Plan(
        passes=PassList.of(graph),
        logical=graph,
        placement=Placement(mesh, "pipeline"),
        pipeline=PipelinePlan(
            chain or VirtualStages.round_robin(len(timetables[0])),
            tuple(timetables),
            batches or MicroBatches("", (1,)),
            overlapped=overlapped,
        ),
        numerics=Numerics(DType.FP32, DType.FP32, DType.FP32, None, False, False, None),
        strategies=Strategies({}, {}),
    )
