"""The points of a sweep that are done: their order, the best, and the Pareto front."""

from __future__ import annotations

from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.sweeps.figures import CAPACITY, MEMORY, SweepFigure, time_figure
from simcluster.sweeps.point import Row
from simcluster.sweeps.variation import SweepSpace


@dataclass(frozen=True)
class RankedPoints:
    """``points`` of a space that are done, by number with their rows, compared by an objective.

    ``name`` is the scenario's; ``figures`` are those that rows have.
    """

    name: str
    space: SweepSpace
    objective: SweepFigure
    figures: tuple[SweepFigure, ...]
    points: tuple[tuple[int, Row], ...]

    @property
    def is_feasible(self) -> bool:
        """Whether some point fits, or is tight."""
        return any(row["verdict"] in ("fits", "tight") for _, row in self.points)

    @property
    def capacity(self) -> int | None:
        """Bytes of the fullest device, where it is one with as much memory in all points."""
        capacities = {row[CAPACITY.column] for _, row in self.points if row.get(CAPACITY.column) is not None}
        return capacities.pop() if len(capacities) == 1 else None

    @cached_property
    def order(self) -> list[int]:
        """Places in ``points``, best first: those that fit, those that do not, those without figures."""

        def rank(place: int) -> tuple[bool, bool, float, int]:
            _, row = self.points[place]
            value = row.get(self.objective.column)
            return not row["fits"], value is None, 0.0 if value is None else self.objective.cost(value), place

        return sorted(range(len(self.points)), key=rank)

    @cached_property
    def best_point(self) -> int | None:
        """The number of the best combination."""
        if not self.order:
            return None
        point, row = self.points[self.order[0]]
        return point if row["fits"] else None

    @cached_property
    def front(self) -> tuple[int, ...]:
        """The combinations of the Pareto front, fastest first."""
        figure = time_figure(self.objective, self.figures)
        fitting = [
            (figure.cost(row[figure.column]), row[MEMORY.column], point)
            for point, row in self.points
            if row["fits"]
        ]
        front, least = [], float("inf")
        for _, memory, point in sorted(fitting):
            if memory < least:
                front.append(point)
                least = memory
        return tuple(front)
