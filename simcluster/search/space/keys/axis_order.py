"""The order of mesh axes, and so which axis gets which links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from simcluster.search.space.plan_choice import PlanChoice
from simcluster.search.space.search_key import SearchKey, SpaceSetting


class AxisOrderKey(SearchKey):
    """Every order of the axes that have more than one rank."""

    kind = "axis_order"
    title = "every order of the mesh's axes, outermost first"
    order = 3

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The orders of the axes; those of one rank stand anywhere."""
        shared = [axis for axis in choice.mesh if axis[1] > 1]
        single = [axis for axis in choice.mesh if axis[1] == 1]
        for axes in permutations(shared):
            yield choice.with_mesh(dict([*axes, *single]))
