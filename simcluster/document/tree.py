"""A YAML document as nodes: plain data, and for every key and value the place where it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document.mark import Mark
from simcluster.document.scalar import Scalar
from simcluster.document.wording import count_phrase, spelled_value

Key = Scalar
Path = tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value: its plain data, the place of the value and the place of its key, and what it contains.

    ``children`` are by key for a mapping and by index for a list. A list item and the root have no key of
    their own: both places are the same.
    """

    data: Any
    mark: Mark
    key: Mark
    children: dict[Key, DocumentNode] = field(default_factory=dict)

    @property
    def place(self) -> Mark:
        """Where to point: a scalar is pointed at itself, a mapping or a list at its key."""
        return self.key if isinstance(self.data, (dict, list)) else self.mark

    @property
    def is_set(self) -> bool:
        """Whether ``--set`` gave the value: its text has a name and no lines."""
        return bool(self.mark.name) and not self.mark.line

    @property
    def inline(self) -> tuple[str, ...]:
        """The names of the command line's settings that gave parts of the value: ``--set mesh.tensor=4``."""
        names = dict.fromkeys(
            name
            for child in self.children.values()
            for name in ((str(child.place),) if not child.place.line else child.inline)
        )
        return tuple(names)

    def find(self, path: Sequence[Key]) -> tuple[DocumentNode, int]:
        """The deepest node that exists on the path, and how many keys lead to it."""
        node = self
        for depth, key in enumerate(path):
            if key not in node.children:
                return node, depth
            node = node.children[key]
        return node, len(path)

    def with_children(self, children: dict[Key, DocumentNode]) -> DocumentNode:
        """The same mapping or list with other children; its data follow them."""
        parts = {key: child.data for key, child in children.items()}
        data = list(parts.values()) if isinstance(self.data, list) else parts
        return replace(self, data=data, children=children)

    def with_value(self, path: Path, value: DocumentNode) -> DocumentNode:
        """A copy in which ``value`` stands at the path; mappings on the way are created where absent.

        Raises ValueError, in plain words, for an index out of range or a path through a scalar.
        """
        if not path:
            return value
        key, *deeper = path
        parent = self if self.data is not None else DocumentNode({}, value.mark, value.mark)
        if isinstance(parent.data, list) and not (isinstance(key, int) and key in parent.children):
            count = count_phrase(len(parent.data), "item")
            raise ValueError(f"the list has no item '{key}'; it holds {count}, counted from 0")
        if not isinstance(parent.data, (dict, list)):
            raise ValueError(f"{spelled_value(parent.data)} is a single value; it holds no key '{key}'")
        child = parent.children.get(key, DocumentNode(None, value.mark, value.mark))
        return parent.with_children({**parent.children, key: child.with_value(tuple(deeper), value)})


_NOWHERE = Mark("")


def plain_nodes(data: Any, mark: Mark = _NOWHERE, key: Mark | None = None) -> DocumentNode:
    """Plain data as nodes that all stand in one place."""
    items: Mapping[Key, Any] = {}
    if isinstance(data, Mapping):
        items = data
    elif isinstance(data, (list, tuple)):
        items = dict(enumerate(data))
    children = {name: plain_nodes(value, mark) for name, value in items.items()}
    return DocumentNode(data, mark, mark if key is None else key, children)


def keys_of(data: Any, path: str) -> Path:
    """A dotted path as keys: those of the data where they exist, text and indexes where they do not.

    Keys that contain dots themselves are found too.
    """
    return _keys_of(data, path.split("."))[0] if path else ()


def _keys_of(data: Any, segments: list[str]) -> tuple[Path, int]:
    best: tuple[Path, int] = tuple(_index_or_text(segment) for segment in segments), 0
    keys: Iterable[Key] = data if isinstance(data, Mapping) else ()
    if isinstance(data, (list, tuple)):
        keys = range(len(data))
    named = {key_text(key): key for key in keys}
    for used in range(1, len(segments) + 1):
        name = ".".join(segments[:used])
        if name not in named:
            continue
        key = named[name]
        following, deeper = _keys_of(data[key], segments[used:])
        if used + deeper > best[1]:
            best = (key, *following), used + deeper
    return best


def merged_data(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with changes put in: sections key by key, everything else as a whole."""
    merged = dict(data)
    for key, value in changes.items():
        inner = merged.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = merged_data(inner, value) if both else value  # type: ignore[arg-type]
    return merged


def key_text(key: Key) -> str:
    """A key as it stands in a key path: ``true`` and ``null`` as in YAML."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(key)


def _index_or_text(segment: str) -> Key:
    return int(segment) if segment.isascii() and segment.isdigit() and len(segment) < 10 else segment
