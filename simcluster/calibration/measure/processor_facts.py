"""What the operating system says of this machine's processors and memory."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError

CPU_INFO = Path("/proc/cpuinfo")
NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True, slots=True)
class ProcessorFacts:
    """The ``model``, how many ``sockets`` of how many ``cores``, NUMA nodes, bytes of memory of the host."""

    model: str
    sockets: int
    cores: int
    numa_nodes: int
    memory: int


@cache
def this_processor() -> ProcessorFacts:
    """Those of this machine; one socket and one NUMA node where the system does not say (not on Linux).

    Raises ScenarioError where it does not say how much memory there is.
    """
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.exists() else ""
    return facts_of(text, _num_nodes(), os.cpu_count() or 1, _memory())


def facts_of(cpu_info: str, numa_nodes: int, num_threads: int, memory: int) -> ProcessorFacts:
    """The facts in the text of ``/proc/cpuinfo``, which has a paragraph per thread."""
    model = platform.processor() or platform.machine()
    sockets: set[str] = set()
    cores: set[tuple[str, str]] = set()
    for paragraph in cpu_info.split("\n\n"):
        lines = (line.partition(":") for line in paragraph.splitlines())
        said = {title.strip(): value.strip() for title, _, value in lines}
        model = said.get("model name", model)
        if "physical id" in said:
            sockets.add(said["physical id"])
            cores.add((said["physical id"], said.get("core id", f"{len(cores)}")))
    count = max(1, len(sockets))
    per_socket = max(1, (len(cores) or num_threads) // count)
    nodes = numa_nodes if numa_nodes % count == 0 else count
    return ProcessorFacts(model, count, per_socket, nodes, memory)


def _num_nodes() -> int:
    return max(1, len(list(NODES.glob("node[0-9]*")))) if NODES.exists() else 1


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError) as error:
        raise ScenarioError(
            Problem("the operating system does not say how much memory this machine has", hint="use Linux")
        ) from error
