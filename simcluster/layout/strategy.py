"""A strategy splits an operator's iteration dims over mesh axes, and so fixes the layouts of its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class Strategy:
    """Iteration dim -> ordered axes (outer first), sorted by dim; dims that are absent stay whole.

    ``outputs`` are results, by their index, that are redistributed right behind the operator; with
    ``scatter`` the sums due in them are scattered over their first dim, whatever else might be cheaper.
    """

    splits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    outputs: tuple[tuple[int, Layout], ...] = ()
    scatter: bool = False

    @classmethod
    def of(cls, splits: Mapping[str, Sequence[str]]) -> Strategy:
        """The strategy with these splits; empty ones are dropped."""
        return cls(tuple(sorted((dim, tuple(axes)) for dim, axes in splits.items() if axes)))

    def axes(self, dim: str) -> tuple[str, ...]:
        """The axes that split ``dim``."""
        for name, axes in self.splits:
            if name == dim:
                return axes
        return ()

    def layout(self, names: Sequence[str]) -> Layout:
        """The layout of an operand whose dims are called ``names``."""
        return Layout(tuple(self.axes(name) for name in names))

    def __str__(self) -> str:
        text = ", ".join(f"{dim}: {'+'.join(axes)}" for dim, axes in self.splits) or "replicated"
        for index, layout in self.outputs:
            text += f", out{index or ''} {layout}"
        return text
