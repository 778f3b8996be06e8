"""What the parts of starting cost, and why these figures."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.document import Duration, Section


class StartCostsSpec(Section):
    """Times of the parts of starting; whatever is not written is assumed, and the result says so."""

    shell: Duration = 1.0
    """Until a command begins on another host: ssh, or one level of mpirun's tree of daemons."""

    process: Duration = 20.0
    """Until a process has started and imported its framework, on the host that is first."""

    process_spread: Duration = 5.0
    """How much longer it takes on the host that is last, of many; drawn evenly by host."""

    pod_creation: Duration = 0.2
    """Until the operator has made one more pod."""

    pod_binding: Duration = 0.01
    """Until the scheduler of Kubernetes has given one more pod a node."""

    image_pull: Duration = 60.0
    """Until a node has the image; all nodes pull at the same time."""

    container: Duration = 1.0
    """Until a container runs, the image being there."""

    registration: Duration = 0.001
    """The scheduler's time for one registration, or one question."""

    heartbeat: Duration = 3.0
    """Between heartbeats of a worker: with the next one it learns that all are there."""

    communicator: Duration = 0.2
    """Of a communicator, whatever its size."""

    communicator_member: Duration = 0.001
    """Of a communicator, for each of its members."""

    compilation: Duration = 20.0
    """Of a graph, however small."""

    compilation_operator: Duration = 0.005
    """Of a graph, for each of its operators."""


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
