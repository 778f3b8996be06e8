"""How long a matmul's body takes: tiles in waves over the cores, against the traffic to memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simcluster.cluster.device.rates import Rate, larger, smaller
from simcluster.work import DType, GemmLayout

SPLITS = (1, 2, 4, 8, 16, 32)
MATRIX_PACE = 0.4
"""Formats this much slower than bf16, or more, do not run on the matrix units: fp32 without TF32, fp64."""
PARTIAL_BYTES = 4
"""Bytes per element of the fp32 partial results that split-k writes, and reads again to add them."""


@dataclass(frozen=True, slots=True)
class GemmModel:
    """A roofline with tile and wave quantisation, for ``b`` products of [m, k] with [k, n].

    The output is cut into tiles; cores work through the tiles in waves, and a partial tile or wave costs a
    whole one (arXiv 2401.14489). The best tile and the best split of k are taken, as the device's matmul
    library would.
    """

    units: int
    """Cores: streaming multiprocessors, AI cores, CPU cores."""
    sustained: float
    """Share of the peak that the largest tile reaches at long k, with the device warm."""
    tiles: tuple[tuple[int, int], ...]
    """(Rows, columns) of the tiles that the library can choose from."""
    traffic: float
    """How much a small tile loses. A tile of Tm x Tn loads (Tm + Tn) k elements for Tm Tn k multiply-adds, so
    its time is stretched by 1 + traffic (1/Tm + 1/Tn), normalised to the largest tile."""
    ramp: float
    """Elements of k that filling and draining a tile's pipeline costs, in formats of ``paces`` 1."""
    align: int
    """Bytes that n and k should be multiples of, a power of two. (m counts tokens in most matmuls and is then
    no operand's contiguous dim.)"""
    misaligned: float
    """Speed left when one of them is odd, reached in equal factors per lost power of two."""
    formats: tuple[tuple[DType, float], ...] = ()
    """Formats that reach another share of their peak than ``sustained``."""
    paces: tuple[tuple[DType, float], ...] = ()
    """Peaks of formats against that of bf16: filling takes a time, so more elements of a faster format. Much
    slower ones are multiplied by units that need no alignment."""
    layouts: tuple[float, float] = (1.0, 1.0)
    """Speed of input and of weight gradients against a forward matmul of the same sizes."""
    grouped: float = 1.0
    """Speed of grouped matmuls of many rows a group against one matmul."""
    group_rows: float = 0.0
    """Rows a group at which half of that is left: every group fills the cores and drains them."""
    start: float = 0.0
    """Seconds that a matmul takes besides its work and its launch."""
    adding: float = 0.0
    """Share of the time of adding to a buffer that no product hides: a tile of a weight gradient reads and
    writes it behind its last product. What one writing in the operands' format costs is in ``ramp``."""
    burst: float = 1.0
    """Speed of a few launches on a cool device, near its highest clock, against ``sustained``."""

    def in_burst(self) -> GemmModel:
        """How matmuls run that are too few to warm the device."""
        return replace(
            self,
            sustained=self.sustained * self.burst,
            formats=tuple((dtype, share * self.burst) for dtype, share in self.formats),
            burst=1.0,
        )

    def seconds(
        self,
        b: int,
        m: int,
        n: int,
        k: int,
        dtype: DType,
        peak: Rate,
        bandwidth: Rate,
        num_bytes: int,
        aligned: int | None = None,
        layout: GemmLayout = GemmLayout.FORWARD,
        grouped: bool = False,
    ) -> Rate:
        """Seconds of one matmul on a device of ``peak`` FLOP/s and usable ``bandwidth`` bytes/s.

        ``num_bytes`` is the least traffic: both operands read, the result written. ``aligned`` counts for the
        alignment in place of a k that is no operand's contiguous dim. Any size may be 0: where k is, no tile
        has anything to multiply, and the zeros of the result are written. ``grouped``: the b products are
        those of groups of rows, which are m, or k in a weight gradient.
        """
        least = num_bytes / bandwidth
        if k == 0:
            return self.start + least
        sustained = dict(self.formats).get(dtype, self.sustained)
        pace = dict(self.paces).get(dtype, 1.0)
        ramp = self.ramp * pace
        rate = sustained * peak / self.units
        if pace >= MATRIX_PACE:
            rate *= self._alignment(n, aligned or k, dtype.itemsize)
        rate *= 1 + self.traffic * min(1 / rows + 1 / columns for rows, columns in self.tiles)
        if layout:
            rate *= self.layouts[layout - 1]
        if grouped:
            group = max(1, k if layout == GemmLayout.WEIGHT_GRADIENT else m)
            rate *= self.grouped * group / (group + self.group_rows)
        one_device = not isinstance(peak, np.ndarray) and not isinstance(bandwidth, np.ndarray)
        best: Rate = math.inf
        for rows, columns in self.tiles:
            blocks = b * -(-m // rows) * -(-n // columns)
            wave_flops = 2 * rows * columns * (1 + self.traffic * (1 / rows + 1 / columns))
            for split in SPLITS:
                if split > k:
                    break
                partials = 2 * PARTIAL_BYTES * split * b * m * n / bandwidth if split > 1 else 0.0
                if one_device and least + partials >= best:
                    break  # no more parts are faster
                waves = -(-blocks * split // self.units)
                compute = waves * wave_flops * (-(-k // split) + ramp) / rate
                best = smaller(best, larger(compute, least) + partials)
        if self.adding and layout == GemmLayout.WEIGHT_GRADIENT:
            written_once = b * (m * k + k * n + m * n) * dtype.itemsize
            best = best + self.adding * max(0, num_bytes - written_once) / bandwidth
        return self.start + best

    def _alignment(self, n: int, k: int, itemsize: int) -> float:
        preferred = max(1, self.align // itemsize)
        granule = min(math.gcd(n, preferred), math.gcd(k, preferred))
        if granule == preferred:
            return 1.0
        return float(self.misaligned ** (math.log2(preferred / granule) / math.log2(preferred)))
