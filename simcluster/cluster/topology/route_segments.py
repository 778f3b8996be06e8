"""Routes put together from pieces: many at once, as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect import Numbers
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class RouteSegment:
    """A piece of routes: links [pairs, most], padded anyhow, how many of them count, and their latency."""

    links: Numbers
    length: Numbers
    latency: NDArray[np.float64]


class ComposedRoutes:
    """Routes put together from segments; ``links``, ``reach`` and ``latency`` as in ``Routes``."""

    def __init__(self, pairs: int) -> None:
        self.links = np.zeros((pairs, 0), dtype=np.int64)
        self.reach = np.zeros(pairs, dtype=np.int64)
        self.latency = np.zeros(pairs)

    def add(self, chosen: NDArray[np.bool_], segments: list[RouteSegment]) -> None:
        """The segments of the chosen pairs, one behind the other without gaps."""
        self.latency[chosen] = sum(segment.latency for segment in segments)
        pairs = np.flatnonzero(chosen)
        code = np.zeros(len(pairs), dtype=np.int64)
        for segment in segments:
            code = code * 64 + segment.length
        self._widen(int(np.sum([segment.length for segment in segments], axis=0).max()))
        for value in np.unique(code).tolist():
            rows = code == value
            whole = bool(rows.all())
            lengths = [int(segment.length[0 if whole else int(np.argmax(rows))]) for segment in segments]
            target, start = pairs if whole else pairs[rows], 0
            for segment, length in zip(segments, lengths, strict=True):
                part = segment.links[:, :length] if whole else segment.links[rows, :length]
                self.links[target, start : start + length] = part
                start += length

    def _widen(self, width: int) -> None:
        more = width - self.links.shape[1]
        if more > 0:
            empty = np.full((len(self.links), more), -1, dtype=np.int64)
            self.links = np.concatenate([self.links, empty], axis=1)
