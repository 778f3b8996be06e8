"""What parameter servers and their workers did: waits at gates, staleness, bytes and work of every server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    sizes = np.array(placed.classes.sizes, dtype=np.float64)[view.workers]
    figures = [(view.end(index), view.gate_wait(index)) for index in view.workers]
    own, waits = np.array(figures).T * 1e-9 / steps
    counts = np.bincount(np.concatenate([np.zeros(0, dtype=np.int64), *view.staleness()]))
    total = int(counts.sum())
    return {
        "update": str(servers.update),
        **({"bound": servers.staleness} if servers.update == "stale_synchronous" else {}),
        "workers": servers.num_active,
        "servers": servers.num_servers,
        "parameters_on_servers": sum(parameter.value.type.num_elements for parameter in servers.parameters),
        "samples_per_s": float((sizes / sizes.sum() * samples / own).sum()),
        "step_s": float(np.average(own, weights=sizes)),
        "step_s_min": float(own.min()),
        "step_s_max": float(own.max()),
        "gate_wait_s": float(np.average(waits, weights=sizes)),
        "gate_wait_s_max": float(waits.max()),
        "staleness": {
            "mean": float((counts * np.arange(len(counts))).sum() / total) if total else 0.0,
            "max": max(len(counts) - 1, 0),
            "counts": counts.tolist(),
        },
        "servers_busy": [view.busy(server) for server in range(servers.num_servers)],
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
        return [index for index, rank in enumerate(self.placed.classes.representatives) if rank in active]

    @cached_property
    def _times(self) -> Sequence[Mapping[int, InstructionTimes]]:
        return list(map(instruction_times, self.timing.classes))

    def _class_of(self, rank: int) -> int:
        return int(self.placed.classes.of_rank[rank])

    def end(self, index: int) -> int:
        """When a worker is through with its last step."""
        return max(int(ends[-1:].max(initial=0)) for ends in self.timing.classes[index].ends)

    def gate_wait(self, index: int) -> int:
        """Nanoseconds in which a worker stands at some gate; several at once count once."""
        return self._covered(index, lambda instruction: instruction.action is InstructionKind.GATE)

    def _executed(
        self, index: int, chosen: Callable[[Instruction], bool]
    ) -> Iterator[tuple[Instruction, Ints, Ints]]:
        """The chosen instructions of a class, and the starts and ends of their executions."""
        for code, times in self._times[index].items():
            for place, instruction in enumerate(self.placed.program.codes[code].instructions):
                if chosen(instruction):
                    yield instruction, times.starts[:, place], times.ends[:, place]

    def _covered(self, index: int, chosen: Callable[[Instruction], bool]) -> int:
        """Nanoseconds in which a class runs any of the chosen instructions."""
        own = [np.stack(times) for _, *times in self._executed(index, chosen)]
        spans = np.concatenate([np.zeros((2, 0), dtype=np.int64), *own], axis=1)
        starts, ends = spans[:, np.argsort(spans[0], kind="stable")]
        reached = np.maximum.accumulate(np.append(0, ends))
        return int(np.maximum(reached[1:] - np.maximum(starts, reached[:-1]), 0).sum())

    def _moved(self, index: int, action: InstructionKind, rank: int) -> Iterator[tuple[Instruction, Ints]]:
        """What a worker pushes to a server or pulls from it, and when these begin."""
        moves = self._executed(index, lambda move: move.action is action and move.server == rank)
        return ((instruction, starts) for instruction, starts, _ in moves)

    def _weights_from(self, index: int, rank: int) -> Iterator[Ints]:
        """When a worker has asked a server for the weights of every step, key by key.

        Whole keys are pulled at the end of the step before; the first step has the weights at the begin.
        """
        for instruction, begun in self._moved(index, InstructionKind.PULL, rank):
            operator = instruction.calls[0].operator
            by_rows = isinstance(operator, ServerCall) and operator.ids
            yield begun if by_rows else np.append(-1, begun[:-1])

    def staleness(self) -> Iterator[Ints]:
        """Of every worker and server: the staleness of every update with its gradients."""
        for rank in map(self.servers.rank_of, range(self.servers.num_servers)):
            updates = list(self._updates(rank))
            if not updates:
                continue
            # Of updates that end at once, those of lower ranks come first, as in values.
            updates.sort(key=lambda update: update[0])
            ends = np.concatenate([ends for _, ends in updates])
            if self.servers.is_synchronous:
                yield np.zeros(len(ends), dtype=np.int64)
                continue
            ends, order = np.sort(ends), np.argsort(ends, kind="stable")
            before = np.argsort(order).reshape(len(updates), self.steps)
            for own, (worker, _) in zip(before, updates, strict=True):
                pulled = np.min(list(self._weights_from(self._class_of(worker), rank)), axis=0)
                yield own - np.searchsorted(ends, pulled, side="right")

    def _updates(self, rank: int) -> Iterator[tuple[int, Ints]]:
        """Ends of a server's updates, for each worker that it serves by itself."""
        for code, times in self._times[self._class_of(rank)].items():
            last = [gate.rank for gate in self.placed.program.codes[code].instructions[-1].opens]
            yield (last[0] or 0) if last else 0, times.ends[:, -1]

    def busy(self, server: int) -> dict[str, Any]:
        """What a server holds, gets and gives in a step, and for how much of it its processors work."""
        program, classes, cluster = self.placed.program, self.placed.classes, self.placed.cluster
        rank = self.servers.rank_of(server)
        worked = self._covered(self._class_of(rank), lambda instruction: bool(instruction.works))
        pushed, pulled = (
            sum(
                instruction.num_bytes * classes.sizes[index]
                for index in self.workers
                for instruction, _ in self._moved(index, action, rank)
            )
            for action in WITH_SERVER
        )
        return {
            "rank": rank,
            "host": cluster.groups[int(cluster.group_of(np.array(rank)))].host.name,
            "keys": len(list(self.servers.shards_of(server))),
            "memory_bytes": sum(
                buffer.num_bytes for buffer in program.parts[program.part_of(rank)].residents
            ),
            "pushed_bytes": pushed,
            "pulled_bytes": pulled,
            "work_s": worked * 1e-9 / self.steps,
            "busy": worked / self.timing.end,
        }
