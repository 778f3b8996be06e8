"""How far a figure may move before a check reports it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field

from simcluster import units
from simcluster.baseline.figure import EVERY, dimension, figure_list_text, figure_named, figure_texts
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError

FORM = "write for example step_time=1%, peak_memory=512MiB, mfu=0.01, or 1% for every figure"


@dataclass(frozen=True, slots=True)
class FigureTolerance:
    """How far a figure may move: as a share of its old value, or an amount in SI units."""

    amount: float
    relative: bool = True

    def allows(self, old: float, new: float) -> bool:
        """Whether a move from ``old`` to ``new`` is small enough."""
        return abs(new - old) <= (self.amount * abs(old) if self.relative else self.amount)

    def shown(self, figure: str) -> str:
        """The tolerance of a figure to read: ``1 %``, ``512 MiB``."""
        return f"{100 * self.amount:g} %" if self.relative else figure_texts(figure, self.amount)[0]


DEFAULT = FigureTolerance(0.001)
"""Runs are deterministic: this is room for a curve that was measured again, not for noise."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Tolerances by figure, and one for all other figures."""

    named: Mapping[str, FigureTolerance] = field(default_factory=dict)
    others: FigureTolerance = DEFAULT

    def __getitem__(self, figure: str) -> FigureTolerance:
        return self.named.get(figure, self.others)

    @classmethod
    def parse(cls, text: str | Iterable[str]) -> Tolerances:
        """The tolerances in texts such as ``step_time=1%,peak_memory=512MiB``.

        A lone ``1%`` is for all other figures. Raises ScenarioError, with the form, for anything else.
        """
        named: dict[str, FigureTolerance] = {}
        others = DEFAULT
        texts = [text] if isinstance(text, str) else list(text)
        for part in (part.strip() for text in texts for part in text.split(",")):
            name, equals, amount = part.rpartition("=")
            try:
                if equals:
                    figure = _figure(name.strip(), part)
                    named[figure] = _read(amount.strip(), figure)
                else:
                    others = _read(amount, "")
            except ValueError as error:
                raise ScenarioError(f"tolerance '{part}': {error}", hint=FORM) from None
        return cls(named, others)


def _figure(name: str, part: str) -> str:
    """The figure of that name; ScenarioError, with the names there are, for another."""
    try:
        return figure_named(name)
    except ValueError as error:
        raise ScenarioError(
            f"tolerance '{part}': {error}", hint=f"{FORM}; {figure_list_text(EVERY)}"
        ) from None


def _read(text: str, figure: str) -> FigureTolerance:
    """A tolerance of one figure; ValueError in plain words."""
    relative = text.endswith("%")
    measured = dimension(figure)
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        if measured is None or relative:
            raise ValueError(f"'{text}' is not a number") from None
        amount = units.parse(text, measured)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError("must be a finite number of at least 0")
    if not figure and not relative:
        raise ValueError("a tolerance of all figures is a share; write it with '%'")
    return FigureTolerance(amount / 100 if relative else amount, relative)
