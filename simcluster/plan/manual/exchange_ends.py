"""A rank's side of an exchange in its local graph: slices of what it sends, and joins of what it receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import nearest
from simcluster.model import Concat, Entry, GraphWriter, Slice, TensorType
from simcluster.plan.manual.collective_operator import view
from simcluster.plan.manual.exchanges import Ends
from simcluster.work import DType

_ABOVE, _BELOW, _LEFT, _RIGHT = (7, 0, 1), (5, 4, 3), (5, 6, 7), (1, 2, 3)
"""The neighbours, counted clockwise from the one above, in each direction; rows from left to right."""


@dataclass(frozen=True, slots=True)
class PlacedEnd:
    """A rank's side of an exchange."""

    number: int
    """The index of the exchange."""
    name: str
    """The entry."""
    position: int
    """Forward operators that run before it."""
    given: tuple[str, ...]
    """Values that are sent, in order."""
    got: tuple[str, ...]
    """Values that are received, in order."""


@dataclass(slots=True)
class EndWriter:
    """Writes a rank's side of exchanges into its local graph."""

    writer: GraphWriter
    """The graph."""
    dtype: DType
    """The format of activations."""
    taken: set[str]
    """Values that are sent already."""

    def write(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        """Writes what a rank does in an exchange; Refused for tensors that do not fit."""
        writes = {
            "send": self._send,
            "receive": self._receive,
            "neighbor_exchange": self._listed,
            "neighbor_exchange_v2": self._around,
            "all_to_all_v": self._parts,
        }
        return writes[entry.op](entry, number, ends)

    # -- one tensor -------------------------------------------------------------------------------------

    def _send(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        self._reads(entry, 1)
        return self._placed(entry, number, [self._own(entry, self.writer.known[entry.inputs[0]], 0)], [])

    def _receive(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        self._reads(entry, 0)
        attributes: dict[str, Any] = dict(entry.attributes)
        got = self._got(entry, f"{entry.name}.out", attributes["shape"], attributes.get("dtype"))
        placed = self._placed(entry, number, [], [got])
        self.writer.called(entry.name, [got])
        return placed

    # -- many -------------------------------------------------------------------------------------------

    def _listed(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        self._reads(entry, len(ends.gives))
        assert isinstance(ends.shape, tuple)
        shapes, given = ends.shape
        kinds = self.writer.kinds(entry)
        for place, (kind, shape) in enumerate(zip(kinds, given or (), strict=False)):
            if kind.shape != tuple(shape):
                raise entry.refused(f"'{entry.inputs[place]}' is {kind}", f"send_shapes.{place}")
        values = [self._own(entry, self.writer.known[name], place) for place, name in enumerate(entry.inputs)]
        got = [
            self._got(entry, f"{entry.name}.out{place}" if place else f"{entry.name}.out", shape, None)
            for place, shape in enumerate(shapes)
        ]
        placed = self._placed(entry, number, values, got)
        self.writer.called(entry.name, got)
        return placed

    def _parts(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        """Pieces of a flat tensor, and the pieces that come, side by side."""
        self._reads(entry, 1)
        assert isinstance(ends.shape, tuple)
        give, get = ends.shape
        (kind,) = self.writer.kinds(entry)
        if kind.shape != (sum(give),):
            message = f"'{entry.inputs[0]}' is {kind}, and {sum(give)} elements are for somebody"
            raise entry.refused(message, "send_numel_list", "it takes a flat tensor, all of which is sent")
        if not sum(get):
            raise entry.refused("a rank gets nothing at all", "recv_numel_list")
        given, start = [], 0
        for place, count in enumerate(give):
            if count:
                cut = Slice(("dim0",), kind.shape, ((0, start, 1, count),))
                given += self._made(entry, f"for{place}", cut, [entry.inputs[0]])
            start += count
        got = [
            self._got(entry, f"{entry.name}.from{place}", (count,), None)
            for place, count in enumerate(get)
            if count
        ]
        placed = self._placed(entry, number, given, got)
        self._joined(entry, entry.name, got, 0)
        return placed

    def _around(self, entry: Entry, number: int, ends: Ends) -> PlacedEnd:
        """The edges and corners of a picture, and those of its neighbours put around it."""
        self._reads(entry, 1)
        assert isinstance(ends.shape, tuple)
        (to, source), give, get = ends.shape
        (kind,) = self.writer.kinds(entry)
        if len(kind.shape) != 4:
            raise entry.refused(
                f"'{entry.inputs[0]}' is {kind}, not [batch, channels, height, width]", "inputs"
            )
        labels = ("batch", "channels", "height", "width")
        given: list[str] = []
        for way in range(len(to)):
            if to[way]:
                cuts = _edge(entry, way, kind.shape, give)
                given += self._made(entry, f"to{way}", Slice(labels, kind.shape, cuts), [entry.inputs[0]])
        known: dict[int | None, str] = {None: self.writer.known[entry.inputs[0]]}
        for way in range(len(source)):
            if source[way]:
                shape = _beyond(entry, way, kind.shape, get)
                known[way] = self._got(entry, f"{entry.name}.from{way}", shape, None)
        got = [known[way] for way in range(len(source)) if source[way]]
        placed = self._placed(entry, number, given, got)
        rows = []
        for name, ways in (("above", _ABOVE), ("middle", (6, None, 2)), ("below", _BELOW)):
            row = [known[way] for way in ways if way in known]
            if row:
                rows.append(self._joined(entry, f"{entry.name}.{name}", row, 3))
        self._joined(entry, entry.name, rows, 2)
        return placed

    # -- pieces -----------------------------------------------------------------------------------------

    def _reads(self, entry: Entry, count: int) -> None:
        if len(entry.inputs) != count:
            raise entry.refused(f"it reads {count} tensors here, not {len(entry.inputs)}", "inputs")
        self.writer.kinds(entry)

    def _placed(self, entry: Entry, number: int, given: Sequence[str], got: Sequence[str]) -> PlacedEnd:
        """The end, behind what is written so far; what is made of what it gets has the entry's name."""
        name = (
            f"{entry.name}.exchange" if entry.op in ("neighbor_exchange_v2", "all_to_all_v") else entry.name
        )
        return PlacedEnd(number, name, len(self.writer.build.nodes), tuple(given), tuple(got))

    def _own(self, entry: Entry, value: str, place: int) -> str:
        """A value that nothing else gives away: the gradients of each come back on their own."""
        if value in self.taken or value in (*self.writer.build.feeds, *self.writer.build.parameters):
            kind = self.writer.build.values[value].type
            value = self.writer.build.add(f"{entry.name}.given{place}", view(kind), value)
        self.taken.add(value)
        return value

    def _made(self, entry: Entry, suffix: str, operator: Slice, inputs: Sequence[str]) -> list[str]:
        """What an operator gives that is part of the entry."""
        made = Entry(entry.path, f"{entry.name}.{suffix}", operator.kind, tuple(inputs), {})
        return list(self.writer.write(made, operator))

    def _got(self, entry: Entry, name: str, shape: Sequence[int], dtype: str | None) -> str:
        labels = [known.label for known in DType]
        if dtype is not None and dtype not in labels:
            raise entry.refused(f"'{dtype}' is not a number format", "dtype", nearest(dtype, labels))
        kind = TensorType(tuple(shape), DType.of(dtype) if dtype else self.dtype)
        if name in self.writer.known:
            raise entry.refused("something else is called so already", "name")
        self.writer.build.input(name, kind)
        self.writer.known[name] = name
        return name

    def _joined(self, entry: Entry, name: str, values: Sequence[str], dim: int) -> str:
        """Tensors side by side along a dim, as one of this name; Refused if others of their dims differ."""
        kinds = [self.writer.build.values[value].type for value in values]
        others = {(*kind.shape[:dim], *kind.shape[dim + 1 :]) for kind in kinds}
        if len(others) > 1:
            listed = " and ".join(map(str, kinds))
            raise entry.refused(
                f"{listed} do not lie side by side",
                "recv_rank_ids",
                "where there are neighbours above and to the right, one between them has the corner",
            )
        labels = tuple(f"dim{index}" for index in range(len(kinds[0].shape)))
        operator = (
            Concat(labels, dim, tuple(kind.shape[dim] for kind in kinds)) if values[1:] else view(kinds[0])
        )
        made = self.writer.build.add(name, operator, *values)
        self.writer.called(name, [made])
        return made


def _edge(
    entry: Entry, way: int, shape: Sequence[int], lens: Sequence[int]
) -> tuple[tuple[int, int, int, int], ...]:
    """Where the edge or corner lies that goes one way: cuts of height and width."""
    cuts = []
    for dim, (first, last), (before, after) in _borders(lens):
        size = before if way in first else after
        if way in (*first, *last):
            if not 0 < size <= shape[dim]:
                raise entry.refused(f"{size} of {shape[dim]} cannot go to a neighbour", "send_lens")
            cuts.append((dim, 0 if way in first else shape[dim] - size, 1, size))
    return tuple(cuts)


def _beyond(entry: Entry, way: int, shape: Sequence[int], lens: Sequence[int]) -> tuple[int, ...]:
    """The shape of what comes from one way."""
    received = list(shape)
    for dim, (first, last), (before, after) in _borders(lens):
        if way in (*first, *last):
            received[dim] = before if way in first else after
            if received[dim] < 1:
                raise entry.refused(f"{received[dim]} cannot come from a neighbour", "recv_lens")
    return tuple(received)


def _borders(
    lens: Sequence[int],
) -> tuple[tuple[int, tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]], ...]:
    """Height and width: the dim, the ways before and after it, and how much lies there."""
    top, bottom, left, right = lens
    return (2, (_ABOVE, _BELOW), (top, bottom)), (3, (_LEFT, _RIGHT), (left, right))
