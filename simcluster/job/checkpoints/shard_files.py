"""Checkpoints of small runs as files: safetensors, one for each rank or one merged, and an index in JSON.

Nothing is pickled, and nothing of a file is executed. A folder is written complete or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused, json_object
from simcluster.errors import ScenarioError
from simcluster.job.checkpoints.checkpoint_content import CheckpointContent, SavedTensor
from simcluster.layout import Layout, Mesh
from simcluster.work import DType

Array = NDArray[Any]

INDEX = "checkpoint.json"
MERGED = "merged.safetensors"
VERSION = 1


@dataclass(frozen=True)
class CheckpointIndex:
    """What ``checkpoint.json`` says: which tensors are in which files, and what they are of."""

    merged: bool
    """Whether one file has all tensors whole; else every rank has a file with its parts."""
    dtype: str
    """The format of all values."""
    seed: int
    """The seed of all random numbers."""
    step: int
    """Steps that were trained: the number of the next."""
    samples: int
    """Samples that were taken: the data position."""
    content: CheckpointContent
    """The tensors by rank."""
    history: tuple[Mapping[str, Any], ...]
    """The runs that trained it, in order: the scenario of each, and its steps and samples."""
    scenario: Mapping[str, Any]
    """The scenario whose plan the files are cut by."""

    def document(self) -> dict[str, Any]:
        """The index as JSON-able data."""
        return {
            "simcluster_checkpoint": VERSION,
            "merged": self.merged,
            "dtype": self.dtype,
            "seed": self.seed,
            "step": self.step,
            "samples": self.samples,
            "mesh": dict(self.content.mesh.axes),
            "vocabulary": self.content.vocabulary,
            "tensors": [
                {
                    "name": tensor.name,
                    "shape": list(tensor.shape),
                    "split": [list(axes) for axes in tensor.layout.dims],
                    **({"flat": list(tensor.layout.flat)} if tensor.layout.flat else {}),
                    "ranks": tensor.ranks.tolist(),
                }
                for tensor in self.content.tensors
            ],
            "history": list(self.history),
            "scenario": self.scenario,
        }

    @classmethod
    def read(cls, folder: Path) -> CheckpointIndex:
        """The index of a folder; ScenarioError if it is no checkpoint, and why."""
        path = folder / INDEX
        if not path.is_file():
            raise ScenarioError(
                f"{folder} is not a checkpoint: it has no {INDEX}",
                hint="write one with simcluster verify SCENARIO --save DIR",
            )
        try:
            data = json_object(path)
        except Refused as error:
            raise ScenarioError(f"{path} {error.problems[0].message}") from None
        if data.get("simcluster_checkpoint") != VERSION:
            raise ScenarioError(f"{path} is not an index of a checkpoint that this version reads")
        try:
            return cls._of(data)
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(
                f"{path} is not an index of a checkpoint: {type(error).__name__} {error}"
            ) from None

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> CheckpointIndex:
        sizes = {str(name): _count(size) for name, size in data["mesh"].items()}
        mesh = Mesh.of(sizes)
        dtype = {"float64": DType.FP32, "float32": DType.FP32}[data["dtype"]]
        tensors = tuple(_tensor(entry, mesh, dtype) for entry in data["tensors"])
        return cls(
            bool(data["merged"]),
            str(data["dtype"]),
            int(data["seed"]),
            _count(data["step"]),
            _count(data["samples"]),
            CheckpointContent(mesh, tensors, vocabulary=_count(data["vocabulary"])),
            tuple(dict(entry) for entry in data["history"]),
            dict(data["scenario"]),
        )


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _tensor(entry: Mapping[str, Any], mesh: Mesh, dtype: DType) -> SavedTensor:
    shape = tuple(_count(size) for size in entry["shape"])
    dims = tuple(tuple(map(str, axes)) for axes in entry["split"])
    flat = tuple(map(str, entry.get("flat", ())))
    if len(dims) != len(shape):
        raise ValueError(f"{entry['name']} has {len(shape)} dims, {len(dims)} of them with axes")
    used = [axis for axes in (*dims, flat) for axis in axes]
    if len(set(used)) < len(used) or not set(used) <= set(mesh.names):
        raise ValueError(f"{entry['name']} is split over {used}, which are not axes of the mesh")
    ranks = np.array([_count(rank) for rank in entry["ranks"]], dtype=np.int64)
    if not ranks.size or (np.diff(ranks) <= 0).any() or ranks[-1] >= mesh.num_ranks:
        raise ValueError(f"{entry['name']} is on ranks {ranks.tolist()} of {mesh.num_ranks}")
    return SavedTensor(str(entry["name"]), shape, dtype, Layout(dims, flat=flat), ranks)


def rank_file(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank_{rank:05d}.safetensors"


def write_checkpoint(
    folder: Path, index: CheckpointIndex, files: Iterator[tuple[str, Mapping[str, Array]]]
) -> None:
    """Writes a folder of files (name, arrays by tensor) and their index, in place of a checkpoint if there is
    one; ScenarioError if there is something else, or safetensors is not installed.
    """
    save = _safetensors().save_file
    if folder.exists() and not _is_replaceable(folder):
        raise ScenarioError(f"{folder} is there already, and is not a checkpoint", hint="name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{os.getpid()}-{folder.name}")
    try:
        partial.mkdir()
        for name, arrays in files:
            save({key: np.ascontiguousarray(array) for key, array in arrays.items()}, partial / name)
        (partial / INDEX).write_text(json.dumps(index.document(), indent=1) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _is_replaceable(folder: Path) -> bool:
    return folder.is_dir() and ((folder / INDEX).is_file() or not any(folder.iterdir()))


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of a checkpoint, read one by one and checked against its index."""

    folder: Path
    index: CheckpointIndex

    @classmethod
    def open(cls, folder: Path) -> CheckpointFiles:
        """The checkpoint in a folder; ScenarioError if its files are not those of its index."""
        files = cls(folder, CheckpointIndex.read(folder))
        files.check()
        return files

    def check(self) -> None:
        """ScenarioError with what is missing: files, tensors, or elements of them."""
        problems: list[str] = []
        for name, expected in self._expected():
            path = self.folder / name
            if not path.is_file():
                problems.append(f"{name} is missing")
                continue
            with self._opened(path) as file:
                there = set(file.keys())
                for tensor in expected:
                    if tensor not in there:
                        problems.append(f"{name} lacks {tensor}")
                        continue
                    kept = file.get_slice(tensor)
                    shape, dtype = tuple(kept.get_shape()), kept.get_dtype()
                    if shape != expected[tensor]:
                        problems.append(f"{name} has {tensor} as {list(shape)}, not {list(expected[tensor])}")
                    elif dtype != ("F64" if self.index.dtype == "float64" else "F32"):
                        problems.append(f"{name} has {tensor} in the format {dtype}, not {self.index.dtype}")
                problems += [
                    f"{name} has {tensor}, which the index does not know" for tensor in there - set(expected)
                ]
        if problems:
            shown = "; ".join(sorted(problems)[:5])
            more = f"; and {len(problems) - 5:,} more" if len(problems) > 5 else ""
            raise ScenarioError(f"{self.folder} is not a whole checkpoint: {shown}{more}")

    def rank(self, rank: int) -> dict[str, Array]:
        """The parts that a rank has, by tensor; of a merged checkpoint its tensors, whole."""
        names = self._names(rank)
        with self._opened(self.folder / (MERGED if self.index.merged else rank_file(rank))) as file:
            return {name: np.asarray(file.get_tensor(name)) for name in names}

    def _names(self, rank: int) -> list[str]:
        tensors = self.index.content.tensors
        if self.index.merged:
            return list(dict.fromkeys(tensor.name for tensor in tensors))
        return [tensor.name for tensor in tensors if rank in tensor.ranks]

    def _expected(self) -> Iterator[tuple[str, dict[str, tuple[int, ...]]]]:
        """The files that there must be, with the shapes of their tensors."""
        content = self.index.content
        if self.index.merged:
            yield MERGED, {tensor.name: tensor.shape for tensor in content.tensors}
            return
        for rank in range(content.mesh.num_ranks):
            held = [tensor for tensor in content.tensors if rank in tensor.ranks]
            yield (
                rank_file(rank),
                {tensor.name: tensor.layout.local_shape(tensor.shape, content.mesh) for tensor in held},
            )

    def _opened(self, path: Path) -> Any:
        """A safetensors file, open; ScenarioError if it is none."""
        safetensors = _safetensors()
        try:
            return safetensors.safe_open(str(path), framework="numpy")
        except Exception as error:
            raise ScenarioError(f"{path} is not a safetensors file: {error}") from None


@dataclass(frozen=True)
class _Library:
    save_file: Callable[..., None]
    safe_open: Callable[..., Any]


def _safetensors() -> _Library:
    """The library; ScenarioError with the extra that brings it, if it is not installed."""
    try:
        from safetensors import safe_open
        from safetensors.numpy import save_file
    except ImportError:
        raise ScenarioError(
            "checkpoints with values need safetensors", hint="install simcluster[checkpoint]"
        ) from None
    return _Library(save_file, safe_open)
