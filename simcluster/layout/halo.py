"""Elements of its neighbours that a rank holds in addition to its own, along a dim that is split."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Halo:
    """``before`` elements of the rank before and ``after`` of the rank behind, along tensor dim ``dim``.

    A halo is either read or still to be added. One that is read holds copies of the neighbours' elements, and
    ``fill`` beyond the ends of the tensor. One that ``adds`` holds terms of sums that the neighbours own:
    what stands beyond the ends belongs to nobody. It lies ``apart`` as neighbours exchange it; a kernel
    reads and writes one array.
    """

    dim: int
    before: int
    after: int
    fill: float = 0.0
    adds: bool = False
    apart: bool = False

    @property
    def size(self) -> int:
        """Elements along the dim that it adds to a rank's own."""
        return self.before + self.after

    def __str__(self) -> str:
        verb = "owing" if self.adds else "reading"
        return f"{verb} {self.before}+{self.after} of dim {self.dim}{' apart' if self.apart else ''}"
