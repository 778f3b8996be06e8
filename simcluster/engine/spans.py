"""From the starts of entries to spans: every instruction of every execution, by array arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.timing import ClassTiming
from simcluster.program import COMPUTE, Action, Program
from simcluster.trace import Table, concatenated

Ints = NDArray[np.int64]
Column = NDArray[Any]

KINDS = tuple(str(action) for action in Action)

COLUMNS = (
    "start",
    "end",
    "class",
    "stream",
    "kind",
    "operator",
    "micro_batch",
    "step",
    "action",
    "bytes",
    "flops",
    "arrival",
    "execution",
    "code",
    "instruction",
)


@dataclass
class Vocabulary:
    """Names and the numbers that stand for them."""

    names: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name, new or known."""
        return self.names.setdefault(name, len(self.names))


@dataclass(frozen=True)
class InstructionTimes:
    """Start, end and arrival of every instruction of a code: arrays [executions, instructions]."""

    executions: Ints
    starts: Ints
    ends: Ints
    arrivals: Ints


def instruction_times(timing: ClassTiming) -> dict[int, InstructionTimes]:
    """Code -> when each of its instructions ran, for all executions of a class."""
    number = {stream.name: index for index, stream in enumerate(timing.linked.streams)}
    found = {}
    for code, executions in timing.linked.by_code().items():
        timed = timing.codes[code]
        count = len(timed.duration)
        starts = np.empty((len(executions), count), dtype=np.int64)
        arrivals = np.empty_like(starts)
        for index, stream in enumerate(timed.streams):
            mine = np.flatnonzero(timed.stream_of == index)
            where = number[stream]
            first = timing.linked.bases[executions, where]
            entries = first[:, None] + timed.entry[mine][None, :]
            starts[:, mine] = timing.starts[where][entries] + timed.offset[mine][None, :]
            arrivals[:, mine] = starts[:, mine] if stream == COMPUTE else timing.arrivals[where][entries]
        found[code] = InstructionTimes(executions, starts, starts + timed.duration[None, :], arrivals)
    return found


def spans(
    program: Program, times: Sequence[dict[int, InstructionTimes]], timings: Sequence[ClassTiming]
) -> Table:
    """The table of spans: one row per instruction, execution and class, sorted by class, start and stream."""
    operators, streams, actions = Vocabulary(), Vocabulary(), Vocabulary()
    parts = [
        _class_spans(program, index, found, timings[index], operators, streams, actions)
        for index, found in enumerate(times)
    ]
    names = {
        "stream": list(streams.names),
        "kind": KINDS,
        "operator": list(operators.names),
        "action": list(actions.names),
    }
    return concatenated(parts, names)


def _class_spans(
    program: Program,
    index: int,
    times: dict[int, InstructionTimes],
    timing: ClassTiming,
    operators: Vocabulary,
    streams: Vocabulary,
    actions: Vocabulary,
) -> Table:
    executions = timing.linked.executions
    per_step = len(executions) // timing.linked.steps
    micro_batch = np.array([each.micro_batch for each in executions], dtype=np.int32)
    action = np.array([actions.number(each.action) for each in executions], dtype=np.int32)
    rows: list[dict[str, Column]] = []
    for code, found in times.items():
        instructions = program.codes[code].instructions
        instances = [executions[execution].instance for execution in found.executions.tolist()]
        labels = {
            instance: [operators.number(f"{instance}.{each.name}") for each in instructions]
            for instance in dict.fromkeys(instances)
        }
        per_instruction: dict[str, Column] = {
            "stream": np.array([streams.number(each.stream) for each in instructions], dtype=np.int16),
            "kind": np.array([KINDS.index(each.action) for each in instructions], dtype=np.int8),
            "bytes": np.array([each.bytes_moved for each in instructions], dtype=np.int64),
            "flops": np.array([each.flops for each in instructions], dtype=np.float64),
            "code": np.full(len(instructions), code, dtype=np.int32),
            "instruction": np.arange(len(instructions), dtype=np.int32),
        }
        per_execution: dict[str, Column] = {
            "micro_batch": micro_batch[found.executions],
            "step": (found.executions // per_step).astype(np.int32),
            "action": action[found.executions],
            "execution": found.executions.astype(np.int32),
            "class": np.full(len(found.executions), index, dtype=np.int32),
        }
        row: dict[str, Column] = {
            "start": found.starts.ravel(),
            "end": found.ends.ravel(),
            "arrival": found.arrivals.ravel(),
        }
        row |= {key: np.tile(column, len(instances)) for key, column in per_instruction.items()}
        row |= {key: np.repeat(column, len(instructions)) for key, column in per_execution.items()}
        row["operator"] = np.array([labels[name] for name in instances], dtype=np.int32).ravel()
        rows.append(row)
    columns = {key: np.concatenate([row[key] for row in rows]) for key in COLUMNS}
    order = np.lexsort((columns["instruction"], columns["stream"], columns["start"]))
    return Table({key: column[order] for key, column in columns.items()})
