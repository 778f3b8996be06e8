"""What parameter servers and their workers did: waits at gates, staleness, bytes and work of every server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from simcluster.analysis.timeline import InstructionTimes, instruction_times
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing
from simcluster.number_arrays import Ints
from simcluster.plan import ServerPlan
from simcluster.program import WITH_SERVER, Instruction, InstructionKind, PlacedProgram, ServerCall


def summarise_servers(
    placed: PlacedProgram, timing: Timing, servers: ServerPlan, samples: int, steps: int
) -> dict[str, Any]:
    """The document of parameter servers; ``samples`` are those of all workers in a step. Times in seconds.

    ``samples_per_s`` counts every worker at its own pace: where they do not wait for each other, the slowest
    one does not say how fast all are. ``gate_wait_s`` and ``step_s`` are of workers, means and extremes.
    ``staleness`` counts updates of a server between the pull of weights and the update with the gradients
    made of them, of other workers: their mean, the most, and by number of such updates how often.
    """
    view = _Servers(placed, timing, servers, steps)
    own = np.array([view.worker_end(index) for index in view.workers]) * 1e-9 / steps
    sizes = np.array([placed.classes.sizes[index] for index in view.workers], dtype=np.float64)
    waits = np.array([view.gate_wait(index) for index in view.workers]) * 1e-9 / steps
    counts = np.bincount(np.concatenate([np.zeros(0, dtype=np.int64), *view.staleness()]))
    total = int(counts.sum())
    return {
        "update": str(servers.update),
        **({"bound": servers.staleness} if servers.update == "stale_synchronous" else {}),
        "workers": servers.num_active,
        "servers": servers.num_servers,
        "parameters_on_servers": sum(parameter.value.type.num_elements for parameter in servers.parameters),
        "samples_per_s": float((sizes / sizes.sum() * samples / own).sum()),
        "step_s": float((own * sizes).sum() / sizes.sum()),
        "step_s_min": float(own.min()),
        "step_s_max": float(own.max()),
        "gate_wait_s": float((waits * sizes).sum() / sizes.sum()),
        "gate_wait_s_max": float(waits.max()),
        "staleness": {
            "mean": float((counts * np.arange(len(counts))).sum() / total) if total else 0.0,
            "max": max(len(counts) - 1, 0),
            "counts": counts.tolist(),
        },
        "servers_busy": list(view.servers_busy()),
    }


@dataclass(frozen=True)
class _Servers:
    placed: PlacedProgram
    timing: Timing
    servers: ServerPlan
    steps: int

    @cached_property
    def workers(self) -> list[int]:
        """The classes of workers."""
        active = set(self.servers.active)
        return [index for rank, index in self._class_of_rank.items() if rank in active]

    @cached_property
    def _class_of_rank(self) -> Mapping[int, int]:
        return {rank: index for index, rank in enumerate(self.placed.classes.representatives)}

    @cached_property
    def _times(self) -> Mapping[int, Mapping[int, InstructionTimes]]:
        return {index: instruction_times(timing) for index, timing in enumerate(self.timing.classes)}

    def worker_end(self, index: int) -> int:
        """When a worker is through with its last step."""
        return max(int(ends[-1]) for ends in self.timing.classes[index].ends if len(ends))

    def _executed(self, index: int) -> Iterator[tuple[Instruction, Ints, Ints]]:
        """What a class does: every instruction, and the starts and ends of its executions."""
        for code, times in self._times[index].items():
            for place, instruction in enumerate(self.placed.program.codes[code].instructions):
                yield instruction, times.starts[:, place], times.ends[:, place]

    def gate_wait(self, index: int) -> int:
        """Nanoseconds in which a worker stands at some gate; several at once count once."""
        return self._covered(index, lambda instruction: instruction.action is InstructionKind.GATE)

    def _moved(self, index: int, action: InstructionKind, server: int) -> Iterator[tuple[Instruction, Ints]]:
        """What a worker pushes to a server or pulls from it, and when these begin."""
        for instruction, starts, _ in self._executed(index):
            if instruction.action is action and instruction.server == server:
                yield instruction, starts

    def _weights_from(self, index: int, server: int) -> Iterator[Ints]:
        """When a worker has asked a server for the weights of every step, key by key.

        Whole keys are pulled at the end of the step before; the first step has the weights at the begin.
        """
        for instruction, begun in self._moved(index, InstructionKind.PULL, server):
            operator = instruction.calls[0].operator
            by_rows = isinstance(operator, ServerCall) and operator.ids
            yield begun if by_rows else np.concatenate([[-1], begun[:-1]])

    def staleness(self) -> Iterator[Ints]:
        """Of every worker and server: the staleness of every update with its gradients."""
        for server in range(self.servers.num_servers):
            rank = self.servers.rank_of(server)
            updates = list(self._updates(rank))
            if not updates:
                continue
            every = np.concatenate([ends for _, ends in updates])
            if self.servers.is_synchronous:
                yield np.zeros(len(every), dtype=np.int64)
                continue
            # Of updates that end at once, those of lower ranks come first, as in values.
            whose = np.repeat([worker for worker, _ in updates], self.steps)
            order = np.lexsort((whose, every))
            before = np.empty_like(order)
            before[order] = np.arange(len(order))
            for place, (worker, _) in enumerate(updates):
                index = self._class_of_rank[worker]
                pulled = np.min(list(self._weights_from(index, rank)), axis=0)
                seen = np.searchsorted(every[order], pulled, side="right")
                yield before[place * self.steps : (place + 1) * self.steps] - seen

    def _updates(self, rank: int) -> Iterator[tuple[int, Ints]]:
        """Ends of a server's updates, for each worker that it serves by itself."""
        for code, times in self._times[self._class_of_rank[rank]].items():
            block = self.placed.program.codes[code]
            last = [gate.rank for gate in block.instructions[-1].opens]
            yield (last[0] or 0) if last else 0, times.ends[:, -1]

    def servers_busy(self) -> Iterator[dict[str, Any]]:
        """What every server holds, gets and gives in a step, and for how much of it its processors work."""
        program, classes, cluster = self.placed.program, self.placed.classes, self.placed.cluster
        for server in range(self.servers.num_servers):
            rank = self.servers.rank_of(server)
            worked = self._covered(self._class_of_rank[rank], lambda instruction: bool(instruction.works))
            moved = {
                action: sum(
                    instruction.num_bytes * classes.sizes[index]
                    for index in self.workers
                    for instruction, _ in self._moved(index, action, rank)
                )
                for action in WITH_SERVER
            }
            residents = program.parts[program.part_of(rank)].residents
            yield {
                "rank": rank,
                "host": cluster.groups[int(cluster.group_of(np.array([rank]))[0])].host.name,
                "keys": len(list(self.servers.shards_of(server))),
                "memory_bytes": sum(buffer.num_bytes for buffer in residents),
                "pushed_bytes": moved[InstructionKind.PUSH],
                "pulled_bytes": moved[InstructionKind.PULL],
                "work_s": worked * 1e-9 / self.steps,
                "busy": worked / self.timing.end,
            }

    def _covered(self, index: int, chosen: Callable[[Instruction], bool]) -> int:
        """Nanoseconds in which a class runs any of the chosen instructions."""
        own = [np.stack(times) for instruction, *times in self._executed(index) if chosen(instruction)]
        starts, ends = np.concatenate([np.zeros((2, 0), dtype=np.int64), *own], axis=1)
        order = np.argsort(starts, kind="stable")
        reached = np.maximum.accumulate(np.concatenate([[0], ends[order][:-1]]))[: len(order)]
        return int(np.maximum(ends[order] - np.maximum(starts[order], reached), 0).sum())
