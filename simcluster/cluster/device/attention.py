"""How long a fused attention kernel's body takes."""

from __future__ import annotations

from simcluster.cluster.device.rates import EfficiencyCurve, Rate, larger
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AttentionModel:
    """A fused (flash) attention kernel: one block per head and tile of queries, blocks in waves."""

    units: int
    """Cores that run blocks."""
    tile: int
    """Queries of one block."""
    forward: tuple[tuple[int, EfficiencyCurve], ...]
    """By head dim, rising: the share of the matrix peak that a full device reaches without a mask, over the
    number of keys; between two head dims interpolated on their logarithm."""
    causal: float
    """Speed of the masked kernel, per FLOP it counts, against the unmasked one."""
    backward: float
    """Speed of the backward kernel against the forward one, per FLOP."""
    earlier: tuple[tuple[int, EfficiencyCurve], ...] = ()
    """By release, the speed of older kernels that a framework may still run, against this one, over the head
    dim; others are as fast."""
    backward_tile: int = 0
    """Keys of one block of the backward kernel, which cuts them instead of queries; 0: as ``tile``."""
    start: float = 0.0
    """Seconds that a kernel takes besides its work."""
    narrow: float = 0.0
    """Speed in formats of fewer than 16 bits against that in 16: exponentials take as long; 0: nothing is
    known, and they run at the same share of their own peak."""

    def seconds(
        self,
        b: int,
        h: int,
        sq: int,
        skv: int,
        d: int,
        causal: bool,
        backward: bool,
        flops: int,
        peak: Rate,
        release: int = 0,
        before: int = 0,
    ) -> Rate:
        """Seconds for ``flops`` executed on a device of ``peak`` FLOP/s; a causal mask counts half of them.

        With a mask, every query sees the ``before`` first keys, and of the rest those that come not later.

        Unmasked blocks are equal, so they fill whole waves. Causal blocks have any length from one tile to
        all keys, twice their mean: cores end up to one longest block apart, half of it on average, and
        nothing is over before the longest block. The tile on the diagonal is computed whole though half of
        it is counted.
        """
        rate = peak * self._share(skv, d) * (self.backward if backward else 1.0)
        older = dict(self.earlier).get(release)
        rate *= older.at(d) if older else 1.0
        tile = (self.backward_tile or self.tile) if backward else self.tile
        blocks = b * h * -(-sq // tile)
        if not blocks:
            return 0.0
        if not causal:
            waves = -(-blocks // self.units)
            return self.start + flops / rate * (waves * self.units / blocks)
        mean = flops / (rate * self.causal)
        longest = 2 * mean * self.units / blocks
        whole = tile / max(skv - before, tile)
        if before:
            # So much of the work is a square that runs as without a mask, and no block is twice the mean.
            masked = (skv - before) / (skv + before)
            shared = mean * masked + flops / rate * (1 - masked)
            most = shared * self.units / blocks * (2 * skv / (skv + before))
            return self.start + larger(shared + mean * masked * whole + most / 2, most)
        return self.start + larger(mean * (1 + whole) + longest / 2, longest)

    def _share(self, skv: int, d: int) -> float:
        return EfficiencyCurve(tuple((float(dim), curve.at(skv)) for dim, curve in self.forward)).at(d)
