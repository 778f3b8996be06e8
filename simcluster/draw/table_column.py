"""What the columns of a table are, whoever draws it."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, whether it holds quantities (``7.96 s``), whether its text may wrap."""

    title: str = ""
    quantity: bool = False
    wraps: bool = False
    style: str = ""


def quantities(*titles: str) -> list[Column]:
    """A column of quantities for each title."""
    return [Column(title, quantity=True) for title in titles]
