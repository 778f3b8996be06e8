"""How one tensor is distributed over the mesh.

Correspondence:

    ========================  =========================  =======================  ==========================
    simcluster                MindSpore                  DTensor                  JAX
    ========================  =========================  =======================  ==========================
    mesh axes                 device matrix              DeviceMesh               Mesh
    ``dims[i] == ("data",)``  tensor map entry           ``Shard(i)`` on data     ``P("data", ...)``
    ``dims[i] == ()``         ``-1``                     no Shard(i)              ``None``
    several axes on one dim   tuple in ``Layout``        several ``Shard(i)``     ``P(("a", "b"))``
    axis in no dim            repeated calculation       ``Replicate()``          axis not mentioned
    ``partial``               before the AllReduce       ``Partial("sum")``       ``unreduced``
    ``flat``                  --                         FSDP's flat parameter    --
    ``halos``                 NeighborExchangeV2         --                       ``ppermute`` by hand
    ========================  =========================  =======================  ==========================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.halo import Halo
from simcluster.layout.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Layout:
    """Which mesh axes split which dim of a tensor, and over which axes its values are partial.

    ``dims`` holds per tensor dim an *ordered* tuple of axes, outer first. ``partial`` maps an axis to the
    reduction (``sum``, ``max``, ``min``, ``logsumexp``) that is still due over it, sorted by axis. ``flat``
    axes split what is left after ``dims``, flattened and padded, into equal runs (ZeRO's flat buffer). An
    axis in none of them holds replicas. ``halos``, by rising dim, are what ranks have of their neighbours
    along dims that are split.
    """

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[tuple[str, str], ...] = ()
    flat: tuple[str, ...] = ()
    halos: tuple[Halo, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Layouts are keys of every memo in the planner; hashing nested tuples each time dominated it.
        object.__setattr__(self, "_hash", hash((self.dims, self.partial, self.flat, self.halos)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def replicated(cls, num_dims: int) -> Layout:
        """The layout of a tensor that every rank holds whole."""
        return cls(((),) * num_dims)

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis the layout uses, in any way."""
        split = tuple(axis for dim in self.dims for axis in dim)
        return split + self.flat + tuple(axis for axis, _ in self.partial)

    @property
    def partial_axes(self) -> tuple[str, ...]:
        """The axes over which a reduction is due."""
        return tuple(axis for axis, _ in self.partial)

    @property
    def has_pending_reduction(self) -> bool:
        """Whether terms of other ranks are still to be added."""
        return bool(self.partial) or any(halo.adds for halo in self.halos)

    @property
    def reduced(self) -> Layout:
        """The same split with every reduction done, halos included."""
        if not self.has_pending_reduction:
            return self
        return replace(self, partial=(), halos=tuple(halo for halo in self.halos if not halo.adds))

    def with_halos(self, halos: Sequence[Halo]) -> Layout:
        """The same split with these halos, those of dims that are not split left out."""
        kept = sorted(
            (halo for halo in halos if self.dims[halo.dim] and halo.size), key=lambda halo: halo.dim
        )
        return replace(self, halos=tuple(kept)) if kept or self.halos else self

    def with_partial(self, axes: Sequence[str], reduction: str = "sum") -> Layout:
        """The same split, partial over ``axes`` besides."""
        if not axes:
            return self
        due = dict(self.partial) | dict.fromkeys(axes, reduction)
        return replace(self, partial=tuple(sorted(due.items())))

    def local_shape(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """Shape of the part one rank holds; one dim if flat.

        Where a dim does not divide, the part is padded: all ranks hold equally much.
        """
        local = tuple([-(-size // mesh.product(axes)) for size, axes in zip(shape, self.dims, strict=True)])
        if self.halos:
            wider = {halo.dim: halo.size for halo in self.halos}
            return tuple(size + wider.get(dim, 0) for dim, size in enumerate(local))
        if not self.flat:
            return local
        return (-(-math.prod(local) // mesh.product(self.flat)),)

    def slices(self, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[slice, ...]:
        """Which part of the whole tensor a rank holds, one slice per dim (before ``flat``, without halos).

        What is shorter than the local shape, or empty, is padded behind.
        """
        runs = [mesh.run(rank, axes, size) for size, axes in zip(shape, self.dims, strict=True)]
        return tuple(slice(first, first + held) for first, held in runs)

    def padded(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """The dims of a whole tensor of this shape that are split but do not divide."""
        return tuple(
            dim
            for dim, (size, axes) in enumerate(zip(shape, self.dims, strict=True))
            if size % mesh.product(axes)
        )

    def __str__(self) -> str:
        split = ", ".join("+".join(axes) or "-" for axes in self.dims)
        text = f"({split})"
        if self.flat:
            text += f" flat {'+'.join(self.flat)}"
        if self.partial:
            text += " partial " + ", ".join(
                axis if reduction == "sum" else f"{reduction} {axis}" for axis, reduction in self.partial
            )
        return ", ".join([text, *map(str, self.halos)])
