"""When everything ran, in compact form: spans are expanded from it class by class, on request.

A class repeats few codes many times, and classes of one stage run the same script. So kept once are what the
codes do, what they cost at each price, and the scripts; and for each class only when its entries began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import TraceError
from simcluster.number_arrays import Ints
from simcluster.trace.slowed_kernels import first_stretched, stretch_kernels
from simcluster.trace.table import Table

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

_OF_SPANS = ("start", "end", "arrival", "operator", "row", "execution")
_OF_CODES = ("stream", "kind", "graph", "bytes", "flops", "code", "instruction")
_OF_EXECUTIONS = ("micro_batch", "step", "action")


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
        return self._named(_joined([self._of_class(index) for index in chosen], COLUMNS))

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
            self._of_code(index, np.flatnonzero(codes == code) + script.start, code)
            for code in np.unique(codes).tolist()
        ]
        columns = _joined(parts, _OF_SPANS)
        row, execution = columns["row"], columns["execution"]
        order = np.lexsort((self.codes["instruction"][row], self.codes["stream"][row], columns["start"]))
        row, execution = row[order], execution[order]
        spans = {
            **{name: columns[name][order] for name in ("start", "end", "arrival", "operator")},
            **{name: self.codes[name][row] for name in _OF_CODES},
            **{name: self.executions[name][execution] for name in _OF_EXECUTIONS},
            "class": np.full(len(order), index, dtype=np.int32),
            "execution": (execution - script.start).astype(np.int32),
        }
        return {name: spans[name] for name in COLUMNS}

    def _of_code(self, index: int, executions: Ints, code: int) -> dict[str, Column]:
        """Times, operators, rows of ``codes`` and of ``executions`` of a class's spans of one code."""
        instructions = self._codes[code]
        starts, ends, arrivals = self._times(index, instructions, executions, code)
        labels, row_of = self._operators[1][code]
        rows = np.arange(instructions.start, instructions.stop)
        return {
            "start": starts.ravel(),
            "end": ends.ravel(),
            "arrival": arrivals.ravel(),
            "operator": labels[row_of[self.executions["instance"][executions]]].ravel(),
            "row": np.tile(rows, len(executions)),
            "execution": np.repeat(executions, len(rows)),
        }

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
        if len(self.stretched):
            rows = self._first_stretched[entry[:, kernels]]
            stretch_kernels(self.stretched, rows, self.codes["entry"][instructions][kernels], started, over)
        starts[:, kernels] = arrivals[:, kernels] = started
        ends[:, kernels] = over
        moves = entry[:, ~kernels]
        starts[:, ~kernels] = self.transfers["start"][moves]
        ends[:, ~kernels] = self.transfers["end"][moves]
        arrivals[:, ~kernels] = self.transfers["arrival"][moves]
        return starts, ends, arrivals

    @cached_property
    def _first_stretched(self) -> Ints:
        return first_stretched(self.stretched, len(self.segments))

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


def _joined(parts: Sequence[Mapping[str, Column]], names: Sequence[str]) -> dict[str, Column]:
    """Columns of spans, one part after the other."""
    nothing = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([part[name] for part in parts]) if parts else nothing for name in names}


def _runs(numbers: Column) -> dict[int, slice]:
    """Number -> its rows, in a column where equal numbers are neighbours; in order."""
    edges = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])) if len(numbers) else numbers
    ends = [*edges[1:].tolist(), len(numbers)]
    return {int(numbers[a]): slice(a, b) for a, b in zip(edges.tolist(), ends, strict=False)}
