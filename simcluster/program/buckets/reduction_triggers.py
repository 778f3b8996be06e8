"""When gradients are ready to be reduced: after the backward that adds the last term."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Instance
from simcluster.program.buckets.gradient_buckets import GradientBucket


@dataclass(frozen=True)
class ReductionTrigger:
    """After which backward a reduction starts; ``place`` is the position of an instance in the backward pass.

    ``holder`` names for instances with a copy of a tied parameter the one that holds it; ``scattered`` for
    buffers of gradients that are scattered with those of others the instance behind which they are.
    """

    place: Mapping[str, int]
    holder: Mapping[str, str]
    scattered: Mapping[str, str]

    @classmethod
    def of(
        cls, backward: Sequence[Instance], holder: Mapping[str, str], scatters: Sequence[GradientBucket]
    ) -> ReductionTrigger:
        """The triggers of a stage whose instances are given in the order of their backward."""
        place = {instance.name: number for number, instance in enumerate(backward)}
        scattered = {value: bucket.at for bucket in scatters for value in bucket.block.values}
        return cls(place, holder, scattered)

    def behind(self, at: str, buffers: Iterable[str]) -> str:
        """The instance after whose backward ``buffers`` are reduced: ``at`` or a later one.

        Later where they are scattered together with gradients that are ready later, and where a copy of a
        tied parameter adds its gradient later than the one that holds it.
        """
        ends = [self.scattered[name] for name in buffers if name in self.scattered]
        at = max([at, *ends], key=self.place.__getitem__)
        late = [
            name
            for name, holder in self.holder.items()
            if self.place[holder] <= self.place[at] < self.place[name]
        ]
        return max(late, key=self.place.__getitem__, default=at)
