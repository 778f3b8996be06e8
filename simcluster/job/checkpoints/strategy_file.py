"""MindSpore's strategy file in JSON, as ``strategy_ckpt_config`` saves it and ``load_distributed_checkpoint``
takes it as ``train_strategy_filename``.

Keys and their meaning are those of MindSpore 2.10, ``mindspore/parallel/_parallel_serialization.py`` and
``_tensor.py``. The files of several stages become one as ``merge_pipeline_strategys`` makes it: names of
parameters get the stage in front, ``1-layers.2.mlp.up.weight``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused, json_object
from simcluster.errors import ScenarioError
from simcluster.job.checkpoints.checkpoint_content import CheckpointContent, SavedTensor
from simcluster.layout import Layout, Mesh

STAGE = "stage"
"""The axis of stages in a content that is made from strategy files."""


@dataclass(frozen=True, slots=True)
class ParameterLayout:
    """How a parameter lies on the ranks of its stages.

    ``device_matrix`` is outermost first, ``tensor_map`` has per dim the places in it, counted from the right.
    An optimizer shard cuts what a rank has of the first dim ``shard_size`` times more, among the ranks that
    are replicas, ``shard_step`` apart; 0 is none, -1 all of them.
    """

    stages: tuple[int, ...]
    device_matrix: tuple[int, ...]
    tensor_map: tuple[tuple[int, ...], ...]
    shard_step: int = 0
    shard_size: int = 0

    @property
    def num_devices(self) -> int:
        """Ranks of a stage."""
        return math.prod(self.device_matrix)

    def document(self) -> dict[str, Any]:
        """The layout as the file has it."""
        return {
            "dev_matrix": list(self.device_matrix),
            "field": 0,
            "indices_offset": [],
            "opt_weight_shard_size": self.shard_size,
            "opt_weight_shard_step": self.shard_step,
            "param_split_shape": [],
            "tensor_map": [-1 if not at else at[0] if len(at) == 1 else list(at) for at in self.tensor_map],
        }


@dataclass(frozen=True)
class StrategyFile:
    """The layouts of parameters, and the strategies of operators: of an input per dim into how many parts."""

    layouts: Mapping[str, ParameterLayout]
    strategies: Mapping[int, Mapping[str, Sequence[Sequence[int]]]] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages that it speaks of."""
        return tuple(sorted({stage for layout in self.layouts.values() for stage in layout.stages}))

    @classmethod
    def of(
        cls, content: CheckpointContent, strategies: Mapping[int, Mapping[str, Sequence[Sequence[int]]]]
    ) -> StrategyFile:
        """That of the tensors of a content; ScenarioError for layouts that MindSpore has no form for."""
        mesh, axis = content.mesh, content.stage_axis
        inside = [(name, size) for name, size in mesh.axes if name != axis and size > 1]
        names, sizes = [name for name, _ in inside], tuple(size for _, size in inside) or (1,)
        layouts: dict[str, ParameterLayout] = {}
        for tensor in content.tensors:
            held = {mesh.coordinate(int(rank), axis) for rank in tensor.ranks} if axis in mesh.sizes else {0}
            places = tuple(
                tuple(len(names) - 1 - names.index(name) for name in axes if name in names)
                for axes in tensor.layout.dims
            )
            step, size = _shard(tensor, mesh, names)
            before = layouts.get(tensor.name)
            stages = tuple(sorted(held | set(before.stages if before else ())))
            layouts[tensor.name] = ParameterLayout(stages, sizes, places, step, size)
        return cls(layouts, strategies)

    def document(self, stage: int | None = None) -> dict[str, Any]:
        """The file of one stage; of all of them merged, if ``stage`` is None and there are several."""
        merged = stage is None and len(self.stages) > 1
        chosen = self.stages if stage is None else (stage,)
        return {
            "current_stage": 1 if merged else chosen[0],
            "parallel_strategy_item": {
                name: {"stage": number, "parallel_strategy": [list(dims) for dims in inputs]}
                for number in chosen
                for name, inputs in self.strategies.get(number, {}).items()
            },
            "parallel_layout_item": {
                (f"{number}-{name}" if merged else name): layout.document()
                for number in chosen
                for name, layout in self.layouts.items()
                if number in layout.stages
            },
        }

    @classmethod
    def read(cls, path: Path) -> StrategyFile:
        """A file of one stage, or a merged one; ScenarioError if it is none."""
        try:
            data = json_object(path)
            return cls._of(data)
        except Refused as error:
            raise ScenarioError(f"{path} {error.problems[0].message}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScenarioError(
                f"{path} is not a strategy file in JSON: {type(error).__name__} {error}",
                hint="strategy_ckpt_config with a save_file that ends with .json writes one",
            ) from None

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> StrategyFile:
        items = data["parallel_layout_item"]
        if not items:
            raise ValueError("parallel_layout_item is empty")
        strategies: dict[int, dict[str, Any]] = {}
        for name, entry in data.get("parallel_strategy_item", {}).items():
            strategies.setdefault(int(entry["stage"]), {})[name] = entry["parallel_strategy"]
        # A file of one stage names it with its operators; a merged one with its parameters.
        own = next(iter(strategies), 0)
        layouts: dict[str, ParameterLayout] = {}
        for name, item in items.items():
            stage, dash, rest = name.partition("-")
            number, name = (int(stage), rest) if dash and stage.isdigit() else (own, name)
            layout = _layout(item, number)
            before = layouts.get(name)
            if before is not None:
                stages = tuple(sorted({*before.stages, number}))
                layout = ParameterLayout(stages, *_fields(layout))
                if _fields(before) != _fields(layout):
                    raise ValueError(f"{name} lies on its stages in different ways")
            layouts[name] = layout
        return cls(layouts, strategies)

    def content(self, like: CheckpointContent) -> CheckpointContent:
        """What ranks hold of the tensors of another content: states lie as their parameters do.

        ScenarioError for tensors whose parameter the file does not have, and for layouts on no common mesh.
        """
        lacking = [tensor.name for tensor in like.tensors if self._layout_of(tensor.name) is None]
        if lacking:
            more = f" and {len(lacking) - 3:,} more" if len(lacking) > 3 else ""
            raise ScenarioError(f"the strategy file does not have {', '.join(lacking[:3])}{more}")
        devices = {layout.num_devices for layout in self.layouts.values()}
        if len(devices) > 1:
            raise ScenarioError(f"stages of the strategy file have {sorted(devices)} ranks")
        num_devices, num_stages = devices.pop(), max(self.stages) + 1
        sizes = _common_digits(num_devices, [layout.device_matrix for layout in self.layouts.values()])
        mesh = Mesh.of({STAGE: num_stages, **{f"d{place}": size for place, size in enumerate(sizes)}})
        ranks: dict[tuple[int, ...], Any] = {}
        tensors: dict[str, SavedTensor] = {}
        for tensor in like.tensors:
            layout = self._layout_of(tensor.name)
            assert layout is not None
            if len(layout.tensor_map) != len(tensor.shape):
                wanted, there = len(tensor.shape), len(layout.tensor_map)
                raise ScenarioError(f"{tensor.name} has {wanted} dims, in the strategy file {there}")
            if layout.stages not in ranks:
                stages = mesh.coordinates[:, 0]
                ranks[layout.stages] = np.flatnonzero(np.isin(stages, layout.stages)).astype(np.int64)
            dims = _refined(layout, sizes)
            tensors[tensor.name] = SavedTensor(
                tensor.name, tensor.shape, tensor.dtype, Layout(dims), ranks[layout.stages]
            )
        return CheckpointContent(mesh, tuple(tensors.values()), STAGE, like.vocabulary)

    def _layout_of(self, tensor: str) -> ParameterLayout | None:
        return self.layouts.get(tensor) or self.layouts.get(tensor.rpartition(".")[0])


def merge_strategy_files(paths: Sequence[Path]) -> StrategyFile:
    """The files of several stages as one; ScenarioError where a stage is missing."""
    files = [StrategyFile.read(path) for path in paths]
    layouts: dict[str, ParameterLayout] = {}
    strategies: dict[int, Mapping[str, Sequence[Sequence[int]]]] = {}
    for file in files:
        strategies |= file.strategies
        for name, layout in file.layouts.items():
            before = layouts.get(name)
            stages = tuple(sorted({*layout.stages, *(before.stages if before else ())}))
            layouts[name] = ParameterLayout(stages, *_fields(layout))
    merged = StrategyFile(layouts, strategies)
    lacking = sorted(set(range(max(merged.stages) + 1)) - set(merged.stages))
    if lacking:
        raise ScenarioError(f"there is no strategy file of stage {', '.join(map(str, lacking))}")
    return merged


def _fields(layout: ParameterLayout) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], int, int]:
    return layout.device_matrix, layout.tensor_map, layout.shard_step, layout.shard_size


def _layout(item: Mapping[str, Any], stage: int) -> ParameterLayout:
    matrix = tuple(int(size) for size in item["dev_matrix"])
    places = tuple(
        tuple(int(at) for at in entry) if isinstance(entry, list) else () if entry == -1 else (int(entry),)
        for entry in item["tensor_map"]
    )
    used = [at for dim in places for at in dim]
    if not matrix or min(matrix) < 1 or any(not 0 <= at < len(matrix) for at in used):
        raise ValueError(f"dev_matrix {list(matrix)} and tensor_map {item['tensor_map']} do not go together")
    if len(set(used)) < len(used):
        raise ValueError(f"tensor_map {item['tensor_map']} splits two dims over one part of the matrix")
    step, size = int(item["opt_weight_shard_step"]), int(item["opt_weight_shard_size"])
    return ParameterLayout((stage,), matrix, places, step, size)


def _shard(tensor: SavedTensor, mesh: Mesh, names: Sequence[str]) -> tuple[int, int]:
    """Step and size of the optimizer shard that a flat layout is; 0 and 0 of others."""
    flat = [axis for axis in tensor.layout.flat if axis in names]
    if not flat:
        return 0, 0
    size = mesh.product(flat)
    local = tensor.shape[0] // mesh.product(tensor.layout.dims[0]) if tensor.shape else 0
    if not tensor.shape or tensor.shape[0] % mesh.product(tensor.layout.dims[0]) or local % size:
        raise ScenarioError(
            f"the shards of {tensor.name} are runs of a flat buffer, which MindSpore has not",
            hint="write optimizer_sharding: {mindspore: level1}, or leave out optimizer states",
        )
    inner = names[names.index(flat[-1]) + 1 :]
    return mesh.product(inner), size


def _common_digits(devices: int, matrices: Sequence[Sequence[int]]) -> list[int]:
    """The sizes of a mesh, outermost first, in which every matrix is made of neighbouring axes."""
    strides = {1, devices}
    for matrix in matrices:
        strides |= {math.prod(matrix[place:]) for place in range(len(matrix))}
    rising = sorted(strides)
    for low, high in pairwise(rising):
        if high % low:
            raise ScenarioError(
                f"device matrices that cut ranks every {low} and every {high} have no common mesh"
            )
    return [high // low for low, high in pairwise(rising)][::-1] or [1]


def _refined(layout: ParameterLayout, sizes: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Per dim the axes of the common mesh that split it, the optimizer's shards as the first dim's last."""
    axes_of: dict[int, tuple[str, ...]] = {}
    strides = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    for place in range(len(layout.device_matrix)):
        low = math.prod(layout.device_matrix[place + 1 :])
        high = low * layout.device_matrix[place]
        inside = tuple(f"d{at}" for at, stride in enumerate(strides) if low <= stride < high)
        axes_of[len(layout.device_matrix) - 1 - place] = inside
    dims = [tuple(axis for at in places for axis in axes_of[at]) for places in layout.tensor_map]
    wanted = layout.shard_size
    if wanted and dims:
        used = {axis for axes in dims for axis in axes}
        free = [f"d{at}" for at, size in enumerate(sizes) if f"d{at}" not in used and size > 1]
        total = math.prod(sizes[int(axis[1:])] for axis in free)
        left, taken = total if wanted == -1 else wanted, list[str]()
        for axis in reversed(free):
            if left == 1:
                break
            size = sizes[int(axis[1:])]
            if left % size:
                raise ScenarioError(
                    f"an optimizer shard over {wanted} ranks cuts a part of {size} of the matrix"
                )
            left //= size
            taken.insert(0, axis)
        if left != 1:
            raise ScenarioError(f"an optimizer shard over {wanted} ranks, but {total} are replicas")
        dims[0] = (*dims[0], *taken)
    return tuple(dims)
