"""Tables of equally long NumPy columns; columns of names are indices into a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import TraceError

Column = NDArray[Any]


V = TypeVar("V")


class Deferred(Mapping[str, V]):
    """A mapping that is made when it is first looked at: ``make`` is called once, or never."""

    def __init__(self, make: Callable[[], Mapping[str, V]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, V]:
        return self._make()

    def __getitem__(self, key: str) -> V:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True)
class Table:
    """Columns by name. A column in ``names`` holds indices into its list of names."""

    columns: Mapping[str, Column]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def deferred(cls, make: Callable[[], Table], one: Callable[[int], Table] | None = None) -> Table:
        """A table that is made when a column is first looked at; ``one`` makes the rows of one class only."""
        return _Deferred(make, one)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> Column:
        try:
            return self.columns[column]
        except KeyError:
            raise TraceError(f"no column '{column}'", hint=f"columns: {', '.join(self.columns)}") from None

    def index(self, column: str, name: str) -> int:
        """The number that stands for ``name`` in a column of names; -1 if it never occurs."""
        return next((index for index, known in enumerate(self.names[column]) if known == name), -1)

    def text(self, column: str) -> NDArray[np.str_]:
        """A column of names as text."""
        return np.array(self.names[column] or [""], dtype=np.str_)[self.columns[column]]

    def where(self, chosen: NDArray[Any] | slice) -> Table:
        """The rows chosen by a mask, by indices or by a slice."""
        return Table({name: column[chosen] for name, column in self.columns.items()}, self.names)

    def among(self, column: str, value: int) -> Table:
        """The rows with a value, of a table that is sorted by the column."""
        values = self[column]
        # Bounds of another type would have the whole column converted.
        first = int(np.searchsorted(values, values.dtype.type(value)))
        last = int(np.searchsorted(values, values.dtype.type(value), side="right"))
        return self.where(slice(first, last))

    def structured(self) -> NDArray[np.void]:
        """The table as a NumPy structured array, names as text."""
        columns = {
            name: self.text(name) if name in self.names else self.columns[name] for name in self.columns
        }
        rows = np.empty(len(self), dtype=[(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        return rows


class _Deferred(Table):
    """A table whose columns are made when they are first looked at."""

    def __init__(self, make: Callable[[], Table], one: Callable[[int], Table] | None) -> None:
        table = cache(make)
        super().__init__(Deferred(lambda: table().columns), Deferred(lambda: table().names))
        object.__setattr__(self, "_one", one)

    def __reduce__(self) -> tuple[type[Table], tuple[object, ...]]:
        return Table, (dict(self.columns), dict(self.names))

    def among(self, column: str, value: int) -> Table:
        """The rows with a value; those of a class are made for this."""
        one: Callable[[int], Table] | None = object.__getattribute__(self, "_one")
        return super().among(column, value) if one is None else one(value)


def concatenate_tables(tables: Sequence[Table], names: Mapping[str, Sequence[str]]) -> Table:
    """Tables with the same columns one after the other; their name columns already share ``names``."""
    keys = tables[0].columns if tables else {}
    return Table({key: np.concatenate([table.columns[key] for table in tables]) for key in keys}, names)


def join_tables(tables: Sequence[Table]) -> Table:
    """Tables with the same columns one after the other, whatever their numbers of names stand for."""
    all_names: dict[str, list[str]] = {}
    parts = []
    for table in tables:
        columns = dict(table.columns)
        for key, names in table.names.items():
            known = all_names.setdefault(key, list(names))
            if known != list(names):
                known += [name for name in names if name not in known]
                places = np.array([known.index(name) for name in names], dtype=table[key].dtype)
                columns[key] = places[table[key]]
        parts.append(Table(columns))
    return concatenate_tables(parts, all_names)
