"""Who shares a mean and a variance in batch norm, and how the statistics lie along the batch."""

from __future__ import annotations

from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Window
from simcluster.model.graph import Array

CHANNELS = ("channels",)


@dataclass(frozen=True, slots=True)
class StatisticsGroups:
    """Who shares a mean and a variance.

    Every ``group`` samples of the batch, or all of them where it is 0 (synchronised); ``count`` are the
    pixels of a channel in all samples of a group.
    """

    count: int
    group: int = 0
    eps: float = 1e-5

    def parted(self, ways: int) -> StatisticsGroups:
        """The statistics of groups ``ways`` times smaller; ValueError if samples do not divide."""
        if self.group % ways:
            raise ValueError(
                f"{self.group} samples in {ways} groups: {self.group} / {ways} = {self.group / ways:g}"
            )
        return replace(self, count=self.count // ways, group=self.group // ways)

    @property
    def labels(self) -> tuple[str, ...]:
        """The dims of a statistic: per group, as part of the batch, and channel."""
        return ("batch", "channels") if self.group else CHANNELS

    @property
    def sums(self) -> tuple[str, ...]:
        """The dims of a pair of sums: of x and its square, or of dy and dy times the normal x."""
        return (*self.labels[:-1], "sums", "channels")

    @property
    def whole(self) -> tuple[tuple[str, str], ...]:
        """The dims that a pass over a group cannot split."""
        names = ("height", "width") if self.group else ("batch", "height", "width")
        return tuple(
            (name, "the statistics of a group are taken over it inside the operator") for name in names
        )

    def windows(self, *operands: int) -> tuple[Window, ...]:
        """How operands with one element per group lie along the batch."""
        return tuple(Window(operand, "batch", self.group) for operand in operands if self.group > 1)

    def shape(self, x: tuple[int, ...], *between: int) -> tuple[int, ...]:
        """The shape of a statistic of pictures of shape ``x``; ``between`` are dims between groups and
        channels.
        """
        return (*((x[0] // self.group,) if self.group else ()), *between, x[1])

    def grouped(self, x: Array) -> Array:
        """Pictures as [groups, samples, channels, height, width]."""
        return x.reshape(-1, self.group or x.shape[0], *x.shape[1:])

    def spread(self, statistic: Array) -> Array:
        """A statistic in a shape that broadcasts over ``grouped``."""
        return statistic.reshape(-1, 1, statistic.shape[-1], 1, 1)

    def back(self, total: Array, *between: int) -> Array:
        """Sums [groups, ..., channels] in the shape of a statistic."""
        shape = (total.shape[0], *between, total.shape[-1])
        return total.reshape(shape if self.group else shape[1:])

    def inner(self, split: frozenset[str]) -> bool:
        """Whether all these dims are inside a group, so that its sums are reduced over ranks."""
        return bool(split) and split <= {name for name, _ in self.whole}
