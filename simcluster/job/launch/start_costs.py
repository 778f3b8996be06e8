"""What the parts of starting cost, and why these figures."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.document import Duration, Section


class StartCostsSpec(Section):
    """Times of the parts of the start; those not given are assumed, and the result says so."""

    shell: Duration = 1.0
    """Time until a command starts on another host: by ssh, or by one level of mpirun's tree of daemons."""

    process: Duration = 20.0
    """Time until a process has started and imported its framework, on the fastest host."""

    process_spread: Duration = 5.0
    """Additional time on the slowest of many hosts; drawn uniformly per host."""

    pod_creation: Duration = 0.2
    """Time of the operator to create one more pod."""

    pod_binding: Duration = 0.01
    """Time of the Kubernetes scheduler to bind one more pod to a node."""

    image_pull: Duration = 60.0
    """Time until a node has the image; all nodes pull at the same time."""

    container: Duration = 1.0
    """Time until a container runs, once its image is present."""

    registration: Duration = 0.001
    """Time of the scheduler for one registration or one query."""

    heartbeat: Duration = 3.0
    """Interval of a worker's heartbeats; with the next heartbeat it learns that all workers are present."""

    communicator: Duration = 0.2
    """Time to create a communicator, regardless of its size."""

    communicator_member: Duration = 0.001
    """Additional time to create a communicator, per member."""

    compilation: Duration = 20.0
    """Time to compile a graph, regardless of its size."""

    compilation_operator: Duration = 0.005
    """Additional time to compile a graph, per operator."""


SOURCES: Mapping[str, str] = {
    "shell": "an ssh login",
    "process": "start and imports take tens of seconds: the lower end",
    "process_spread": "a quarter of the start itself",
    "pod_creation": "client-go's default of 5 requests a second, from memory",
    "pod_binding": "100 pods a second, the usual figure of Kubernetes' scheduler, from memory",
    "image_pull": "about 10 GB at 170 MB/s",
    "container": "a container whose image is there",
    "registration": "one small TCP request of a single thread",
    "heartbeat": "a hundredth of MS_NODE_TIMEOUT's default",
    "communicator": "bootstrap and transports of a small communicator; nothing is published",
    "communicator_member": "one more connection; nothing is published",
    "compilation": "minutes for large models in graph mode: the part that does not grow",
    "compilation_operator": "minutes for large models in graph mode: 100 s for 20,000 operators",
}
"""Why each is assumed to be so; start-up phases are those of published accounts, hardly any figure is."""
