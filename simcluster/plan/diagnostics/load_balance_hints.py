"""Proposals for mixed clusters: unequal layers or batch shares. Nothing is balanced unasked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Cluster
from simcluster.layout import Mesh
from simcluster.work import DType

MOST_SHARE = 16
"""The largest share that is proposed; if devices differ more, the slow ones are better left out."""


def balance_hints(
    cluster: Cluster,
    mesh: Mesh,
    matmul: DType,
    layers: Sequence[int],
    stage_axis: str,
    batch_axes: Sequence[str],
    *,
    shared: bool,
    staged: bool,
) -> Iterator[str]:
    """Notes that propose unequal layers or batch shares where devices of unequal peaks do equal work.

    ``shared`` and ``staged``: whether the scenario gives batch shares, or layers by stage, itself.
    """
    if not cluster.mixed or mesh.off_axes:
        return
    peaks = np.array([group.host.device.peak[matmul] for group in cluster.groups])
    rates = peaks[cluster.group_of(np.arange(mesh.num_ranks))]
    if not staged and mesh.size(stage_axis) > 1:
        by_stage = _along(rates, mesh, stage_axis)
        proposed = apportion(by_stage, sum(layers))
        if proposed != tuple(layers):
            yield (
                f"stages have {_listed(layers)} layers whatever their devices; by the {matmul} peaks "
                f"of these it would be schedule: {{stages: [{_listed(proposed)}]}}"
            )
    if not shared:
        for axis in batch_axes:
            by_coordinate = _along(rates, mesh, axis)
            shares = _shares(by_coordinate)
            if len(set(shares)) > 1:
                yield (
                    f"all coordinates of {axis} train equally much whatever their devices; by the {matmul} "
                    f"peaks of these it would be batch_shares: {{{axis}: [{_listed(shares)}]}}"
                )


def apportion(rates: Sequence[float], total: int) -> tuple[int, ...]:
    """``total`` divided into whole parts of at least 1 in proportion to the rates, by largest remainders."""
    rest = total - len(rates)
    wanted = np.array(rates) / sum(rates) * total - 1
    kept = np.maximum(wanted, 0.0)
    exact = kept / kept.sum() * rest if rest and kept.sum() else np.zeros(len(rates))
    shares = np.floor(exact).astype(int)
    for index in np.argsort(-(exact - shares), kind="stable")[: rest - int(shares.sum())]:
        shares[index] += 1
    return tuple((shares + 1).tolist())


def _along(rates: NDArray[np.float64], mesh: Mesh, axis: str) -> list[float]:
    """The rates of all ranks of each coordinate together."""
    place = mesh.coordinates[:, mesh.names.index(axis)]
    sums: list[float] = np.bincount(place, weights=rates, minlength=mesh.size(axis)).tolist()
    return sums


def _shares(rates: Sequence[float]) -> tuple[int, ...]:
    """Small whole numbers in the proportion of the rates."""
    return tuple(min(MOST_SHARE, max(1, round(rate / min(rates)))) for rate in rates)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
