"""MindSpore's group file: groups of ranks, and the ranks that hold what this one does.

``GROUP_INFO_FILE`` names it in training, ``restore_group_info_list`` reads it. It is a protocol buffer, the
message ``ParallelGroupMap`` of ``node_strategy.proto`` (MindSpore 2.10): groups (1), each with its name (1)
and its ranks (2), and the ranks with equal parameters (2); lists of ranks are a message of numbers (1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused, content_of
from simcluster.errors import ScenarioError
from simcluster.job.checkpoints.checkpoint_content import CheckpointContent

VARINT, LENGTH = 0, 2
"""Types of fields in protocol buffers."""


@dataclass(frozen=True)
class GroupFile:
    """The groups of a rank by name, and the ranks with all the parameters that it has, itself among them."""

    groups: Mapping[str, Sequence[int]]
    restore_ranks: Sequence[int]

    def encode(self) -> bytes:
        """The file's bytes."""
        items = b"".join(
            _field(1, _field(1, name.encode()) + _field(2, _ranks(ranks)))
            for name, ranks in self.groups.items()
        )
        return items + _field(2, _ranks(self.restore_ranks))

    @classmethod
    def read(cls, path: Path) -> GroupFile:
        """The file at a path; ScenarioError if it is none."""
        try:
            return cls.decode(content_of(path))
        except Refused as error:
            raise ScenarioError(f"{path} {error.problems[0].message}") from None
        except ValueError as error:
            raise ScenarioError(f"{path} is not a group file: {error}") from None

    @classmethod
    def decode(cls, data: bytes) -> GroupFile:
        """What bytes say; ValueError if they are no group file."""
        groups: dict[str, list[int]] = {}
        restore: list[int] | None = None
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                inner = dict(_fields(value))
                name, ranks = inner.get(1), inner.get(2)
                if not isinstance(name, bytes) or not isinstance(ranks, bytes):
                    raise ValueError("a group lacks its name or its ranks")
                groups[name.decode("utf-8")] = _numbers(ranks)
            elif number == 2 and isinstance(value, bytes):
                restore = _numbers(value)
        if restore is None:
            raise ValueError("it has no list of ranks to restore from")
        return cls(groups, restore)


def restore_ranks(content: CheckpointContent, rank: int) -> list[int]:
    """The ranks that hold equal parts of all tensors that a rank holds, rising, itself among them."""
    alike = np.ones(content.mesh.num_ranks, dtype=bool)
    for tensors in content.groups():
        ranks = tensors[0].ranks
        if rank not in ranks:
            continue
        part = tensors[0].slices(content.mesh).part_of_rank
        has = np.zeros_like(alike)
        has[ranks] = True
        alike &= has & (part == part[rank])
    return [int(other) for other in np.flatnonzero(alike)]


def _ranks(ranks: Sequence[int]) -> bytes:
    return b"".join(_key(1, VARINT) + _varint(rank) for rank in ranks)


def _field(number: int, value: bytes) -> bytes:
    return _key(number, LENGTH) + _varint(len(value)) + value


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _numbers(data: bytes) -> list[int]:
    """The numbers of a list, written one by one or packed."""
    ranks: list[int] = []
    for number, value in _fields(data):
        if number != 1:
            raise ValueError(f"a list of ranks has a field {number}")
        if isinstance(value, int):
            ranks.append(value)
            continue
        at = 0
        while at < len(value):
            rank, at = _read_varint(value, at)
            ranks.append(rank)
    return ranks


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield number, value
        elif kind == LENGTH:
            size, at = _read_varint(data, at)
            if at + size > len(data):
                raise ValueError("it ends in the middle of a field")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"it has a field of type {kind}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise ValueError("it ends in the middle of a number")
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("it has a number of more than 64 bits")
