"""Tables as people work with them in Python: DataFrames of polars or pandas, or NumPy's structured arrays."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import Problem, SimclusterError, nearest
from simcluster.trace import Table

if TYPE_CHECKING:
    import pandas
    import polars

Rows: TypeAlias = "polars.DataFrame | pandas.DataFrame | NDArray[np.void]"

Frame: TypeAlias = bool | Literal["polars", "pandas"] | None
"""polars or pandas; True: polars; False: NumPy; None: polars where it is installed, else NumPy."""

LIBRARIES = ("polars", "pandas")


def table_rows(table: Table, frame: Frame = None) -> Rows:
    """A table as a DataFrame or a structured array.

    Raises SimclusterError, with the command that installs it, for a library that is not installed.
    """
    if frame is False or (frame is None and find_spec("polars") is None):
        return table.structured()
    library = "polars" if frame in (None, True) else str(frame)
    if library not in LIBRARIES:
        raise SimclusterError(f"there is no frame '{library}'", hint=nearest(library, LIBRARIES))
    if find_spec(library) is None:
        install = "'simcluster[notebook]'" if library == "polars" else library
        hint = f"install it: pip install {install}; frame=False gives a NumPy array"
        raise SimclusterError(Problem(f"{library} is not installed", hint=hint))
    return _polars(table) if library == "polars" else _pandas(table)


def _polars(table: Table) -> polars.DataFrame:
    import polars

    columns = {}
    for name, column in table.columns.items():
        if name in table.names:
            words = polars.Series(name, list(table.names[name]), dtype=polars.String)
            columns[name] = words.gather(polars.Series(column.astype(np.uint32)))
        else:
            columns[name] = polars.Series(name, column)
    return polars.DataFrame(columns)


def _pandas(table: Table) -> pandas.DataFrame:
    import pandas

    columns = {
        name: pandas.Categorical.from_codes(column, list(table.names[name]))
        if name in table.names
        else column
        for name, column in table.columns.items()
    }
    return pandas.DataFrame(columns)
