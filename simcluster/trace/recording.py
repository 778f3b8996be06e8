"""When everything ran, in compact form: spans are expanded from it class by class, on request.

A class repeats few codes many times, and classes of one stage run the same script. So kept once are what the
codes do, what they cost at each price, and the scripts; and for each class only when its entries began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import TraceError
from simcluster.trace.slowed_kernels import stretch_kernels
from simcluster.trace.table import Table

Ints = NDArray[np.int64]
Column = NDArray[Any]

COMPUTE = "compute"
"""The stream of kernels; all others carry transfers."""

MOST_SPANS = 20_000_000
"""Rows of one table of spans: two gigabytes."""

COLUMNS = (
    "start",
    "end",
    "class",
    "stream",
    "kind",
    "operator",
    "graph",
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
"""Of the spans. Times are in nanoseconds; ``arrival`` is when a transfer could have begun; ``graph`` is the
piece, launched as one graph, of which it is a part, or empty."""


@dataclass(frozen=True)
class Recording:
    """Tables; columns marked [n] have n values per row.

    - ``codes``, a row per instruction of each code: code, instruction, stream, kind, name, graph, bytes,
      flops, and entry, its place among the entries of its stream.
    - ``prices``, a row per instruction of a code at a price: price, duration, and offset, a kernel's start
      within its entry.
    - ``executions``, a row per execution of a script, in order: script, code, instance, action, micro_batch,
      step, and base [streams], the number of its first entry on every stream.
    - ``classes``, a row each: script, price [codes], in the order of ``codes`` (-1: never executed), and
      first [streams], where its entries begin in one of the next two tables (-1: no such stream).
    - ``segments``, the entries of the stream of kernels: start, end.
    - ``transfers``, those of all others: start, end, arrival.
    - ``stretched``, a row per kernel of the segments that communication slowed: entry (its row in
      ``segments``), start, end, in order; the kernels of all others follow from their price.

    Times are nanoseconds.
    """

    codes: Table
    prices: Table
    executions: Table
    classes: Table
    segments: Table
    transfers: Table
    stretched: Table

    @classmethod
    def deferred(cls, make: Callable[[], Recording]) -> Recording:
        """A recording that is made when it is first looked at: ``make`` is called once, or never."""
        made = cache(make)
        return cls(*(Table.deferred(partial(_part, made, table.name)) for table in fields(cls)))

    def __len__(self) -> int:
        """How many spans there are."""
        return int(self.sizes.sum())

    @property
    def whole(self) -> Recording:
        """The recording of all classes: this one."""
        return self

    @cached_property
    def sizes(self) -> Ints:
        """Spans of every class."""
        lengths = np.zeros(int(self.codes["code"].max(initial=-1)) + 1, dtype=np.int64)
        for code, rows in self._codes.items():
            lengths[code] = rows.stop - rows.start
        scripts = self.classes["script"]
        totals = np.zeros(int(scripts.max(initial=-1)) + 1, dtype=np.int64)
        for script, rows in self._scripts.items():
            totals[script] = lengths[self.executions["code"][rows]].sum()
        return np.asarray(totals[scripts], dtype=np.int64)

    @cached_property
    def end(self) -> int:
        """When the last entry ended; 0 if there is none."""
        return max(int(table["end"].max(initial=0)) for table in (self.segments, self.transfers))

    @property
    def operators(self) -> Sequence[str]:
        """The names that numbers in the column ``operator`` of spans stand for."""
        return self._operators[0]

    def spans(self, index: int) -> Table:
        """The spans of one class, sorted by start and stream."""
        return self._named(self._of_class(index))

    def table(self, classes: Sequence[int] | None = None) -> Table:
        """The spans of some classes or of all, one class after the other.

        Raises TraceError if they are too many for one table.
        """
        chosen = range(len(self.classes)) if classes is None else classes
        count = int(self.sizes[np.array(chosen, dtype=np.int64)].sum())
        check_span_count(len(chosen), count)
        return self._named(_joined([self._of_class(index) for index in chosen]))

    def _named(self, columns: Mapping[str, Column]) -> Table:
        names = {name: self.codes.names[name] for name in ("stream", "kind", "graph")}
        return Table(
            columns, {**names, "operator": self.operators, "action": self.executions.names["action"]}
        )

    def _of_class(self, index: int) -> dict[str, Column]:
        """The columns of a class's spans, as ``COLUMNS`` lists them."""
        script = self._scripts.get(int(self.classes["script"][index]), slice(0, 0))
        codes = self.executions["code"][script]
        parts = [
            self._of_code(index, script, code, np.flatnonzero(codes == code))
            for code in np.unique(codes).tolist()
        ]
        columns = _joined(parts)
        order = np.lexsort((columns["instruction"], columns["stream"], columns["start"]))
        return {name: column[order] for name, column in columns.items()}

    def _of_code(self, index: int, script: slice, code: int, which: Ints) -> dict[str, Column]:
        """The columns of a class's executions ``which`` of a code: all instructions of one, then the next."""
        instructions, rows = self._codes[code], which + script.start
        starts, ends, arrivals = self._times(index, instructions, rows, code)
        shape = starts.shape
        labels, row_of = self._operators[1][code]
        instances = self.executions["instance"][rows]
        columns: dict[str, Column] = {
            "start": starts,
            "end": ends,
            "arrival": arrivals,
            "class": np.full(shape, index, dtype=np.int32),
            "execution": np.broadcast_to(which.astype(np.int32)[:, None], shape),
            "operator": labels[row_of[instances]],
        }
        for name in ("stream", "kind", "graph", "bytes", "flops", "code", "instruction"):
            columns[name] = np.broadcast_to(self.codes[name][instructions], shape)
        for name in ("micro_batch", "step", "action"):
            columns[name] = np.broadcast_to(self.executions[name][rows][:, None], shape)
        return {name: column.ravel() for name, column in columns.items()}

    def _times(self, index: int, instructions: slice, rows: Ints, code: int) -> tuple[Ints, Ints, Ints]:
        """Starts, ends and arrivals of a code's instructions [executions, instructions]."""
        streams = self.codes["stream"][instructions]
        first = self.classes["first"][index][streams] + self.codes["entry"][instructions]
        entry = self.executions["base"][rows][:, streams] + first
        price = self._prices[int(self.classes["price"][index][self._order[code]])]
        starts = np.empty(entry.shape, dtype=np.int64)
        ends, arrivals = np.empty_like(starts), np.empty_like(starts)
        kernels = streams == self.codes.index("stream", COMPUTE)
        started = self.segments["start"][entry[:, kernels]] + self.prices["offset"][price][kernels]
        over = started + self.prices["duration"][price][kernels]
        stretch_kernels(
            self.stretched, entry[:, kernels], self.codes["entry"][instructions][kernels], started, over
        )
        starts[:, kernels] = arrivals[:, kernels] = started
        ends[:, kernels] = over
        moves = entry[:, ~kernels]
        starts[:, ~kernels] = self.transfers["start"][moves]
        ends[:, ~kernels] = self.transfers["end"][moves]
        arrivals[:, ~kernels] = self.transfers["arrival"][moves]
        return starts, ends, arrivals

    @cached_property
    def _codes(self) -> dict[int, slice]:
        return _runs(self.codes["code"])

    @cached_property
    def _order(self) -> dict[int, int]:
        return {code: number for number, code in enumerate(self._codes)}

    @cached_property
    def _prices(self) -> dict[int, slice]:
        return _runs(self.prices["price"])

    @cached_property
    def _scripts(self) -> dict[int, slice]:
        return _runs(self.executions["script"])

    @cached_property
    def _operators(self) -> tuple[list[str], dict[int, tuple[NDArray[np.int32], Ints]]]:
        """Operators by name, and by code the numbers of its instructions' for each of its instances
        [instances, instructions], with the row of each instance there.
        """
        instances, names = self.executions.names["instance"], self.codes.names["name"]
        numbers: dict[str, int] = {}
        labels: dict[int, dict[int, list[int]]] = {code: {} for code in self._codes}
        for rows in self._scripts.values():
            codes, which = self.executions["code"][rows], self.executions["instance"][rows]
            for code in np.unique(codes).tolist():
                own_names = [names[name] for name in self.codes["name"][self._codes[code]].tolist()]
                for instance in dict.fromkeys(which[codes == code].tolist()):
                    texts = (f"{instances[instance]}.{name}" for name in own_names)
                    labels[code][instance] = [numbers.setdefault(text, len(numbers)) for text in texts]
        by_code = {}
        for code, by_instance in labels.items():
            row_of = np.full(len(instances), -1, dtype=np.int64)
            row_of[list(by_instance)] = np.arange(len(by_instance))
            by_code[code] = np.array(list(by_instance.values()), dtype=np.int32), row_of
        return list(numbers), by_code


def check_span_count(classes: int, count: int) -> None:
    """Raises TraceError if so many spans, of so many classes, are too many for one table."""
    if count > MOST_SPANS:
        raise TraceError(
            f"{classes:,} classes have {count:,} spans; one table holds at most {MOST_SPANS:,}",
            hint="choose fewer ranks, such as spans(ranks=[0, 17])",
        )


def _part(made: Callable[[], Recording], name: str) -> Table:
    """A table of a recording."""
    table: Table = getattr(made(), name)
    return table


def _joined(parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The columns of spans, one part after the other."""
    nothing = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([part[name] for part in parts]) if parts else nothing for name in COLUMNS}


def _runs(numbers: Column) -> dict[int, slice]:
    """Number -> its rows, in a column where equal numbers are neighbours; in order."""
    edges = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])) if len(numbers) else numbers
    ends = [*edges[1:].tolist(), len(numbers)]
    return {int(numbers[a]): slice(a, b) for a, b in zip(edges.tolist(), ends, strict=False)}
