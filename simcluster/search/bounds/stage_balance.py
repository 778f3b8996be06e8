"""Layers of pipeline stages balanced by their time, as far as memory lets them."""

from __future__ import annotations

import numpy as np

from simcluster.number_arrays import Floats


def balanced_layers(
    times: Floats, held: Floats, kept: Floats, in_flight: Floats, slowness: Floats, limits: Floats
) -> tuple[int, ...]:
    """Layers of each of some consecutive stages, so that the longest stage is as short as possible.

    ``times``, ``held`` and ``kept`` [layers] are of every layer: seconds of a micro-batch on the fastest
    device, bytes held throughout and bytes that a micro-batch keeps. ``in_flight``, ``slowness`` and
    ``limits`` [stages] are of every stage: the micro-batches that it keeps at once, how many times longer
    its devices take, and the bytes that they may hold. Every stage has a layer. Among equally long ones the
    division with the smallest sum of squared times is taken; () if none fits.

    Dynamic programming over stages: the best division of the first layers ends with the best of fewer.
    """
    count, num_stages = len(times), len(limits)
    if num_stages > count:
        return ()
    passed, stored, saved = (np.concatenate([[0.0], np.cumsum(column)]) for column in (times, held, kept))
    longest = np.full(count + 1, np.inf)
    squares = np.full(count + 1, np.inf)
    longest[0] = squares[0] = 0.0
    begins = np.zeros((num_stages, count + 1), dtype=np.int64)
    first = np.arange(count + 1)
    for stage in range(num_stages):
        spent = slowness[stage] * (passed[None, :] - passed[:, None])
        memory = stored[None, :] - stored[:, None] + in_flight[stage] * (saved[None, :] - saved[:, None])
        possible = (first[:, None] < first[None, :]) & (memory <= limits[stage])
        worst = np.where(possible, np.maximum(longest[:, None], spent), np.inf)
        total = np.where(possible, squares[:, None] + spent**2, np.inf)
        best = worst.min(axis=0)
        among = np.where(worst <= best[None, :], total, np.inf)
        begins[stage] = among.argmin(axis=0)
        longest, squares = best, among.min(axis=0)
    if not np.isfinite(longest[count]):
        return ()
    ends = [count]
    for stage in reversed(range(num_stages)):
        ends.append(int(begins[stage, ends[-1]]))
    return tuple(np.diff(ends[::-1]).tolist())
