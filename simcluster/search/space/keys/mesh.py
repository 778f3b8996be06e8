"""Sizes of the mesh's axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcluster.search.space.axes import from_data, in_order
from simcluster.search.space.plan_choice import DATA, PIPELINE, TENSOR, PlanChoice
from simcluster.search.space.search_key import NumberKey, SearchKey, SpaceSetting, divisors


class MeshKey(SearchKey):
    """Every way to share devices between pipeline, data and tensor parallelism."""

    kind = "mesh"
    title = "pipeline x data x tensor = the number of devices; tensor divides the attention heads"
    order = 1
    is_usual = True

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """Sizes of the three axes; others stay as they are."""
        sizes = dict(choice.mesh)
        free = setting.num_devices
        for axis, size in choice.mesh:
            free //= size if axis not in (PIPELINE, DATA, TENSOR) else 1
        for tensor in divisors(free):
            if setting.num_heads % tensor == 0:
                for stages in divisors(free // tensor):
                    if stages <= setting.num_layers:
                        data = free // tensor // stages
                        chosen = {PIPELINE: stages, DATA: data, TENSOR: tensor}
                        yield choice.with_mesh(in_order({**sizes, **chosen}, sizes))


class ContextKey(NumberKey):
    """Ranks that share sequences."""

    kind = "context"
    title = "every divisor of the data axis that divides the sequence"
    order = 2

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """Context parallelism taken from data parallelism."""
        training = setting.scenario.spec.training
        assert training is not None, "spaces are of training"
        for size in map(int, values) if values else _halvings(choice):
            if training.seq_len % (2 * size) == 0 or size == 1:
                yield from from_data(choice, "context", size)


class ExpertKey(NumberKey):
    """Ranks that share the experts of every layer."""

    kind = "expert"
    title = "every divisor of the data axis that divides the experts"
    order = 2

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """Expert parallelism taken from data parallelism, which it is a part of."""
        for size in map(int, values) if values else divisors(choice.size(DATA) * choice.size("expert")):
            if setting.num_experts % size == 0:
                yield from from_data(choice, "expert", size)


def _halvings(choice: PlanChoice) -> list[int]:
    whole = choice.size(DATA) * choice.size("context")
    return [size for size in divisors(whole) if size & (size - 1) == 0]
