"""Digests of graphs: equal for graphs of the same operators, layouts, phases and stages in the same order."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph.graph import Block, Graph, Node, Value

T = TypeVar("T")


def graph_digests(graphs: Iterable[Graph]) -> Iterator[str]:
    """The digest of every graph: 16 hexadecimal digits, the same in every process.

    Names of blocks do not count, nor do the reasons that users read (``Node.why``).
    """
    texts = _Texts()
    for graph in graphs:
        numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(_blocks_in_use(graph)))}
        total = hashlib.sha256()
        for name in numbers:
            total.update(texts.of(graph.blocks[name], texts.block).encode())
        for instance in graph.instances:
            place = (instance.stage, instance.chunk, instance.repeats, instance.slice, instance.first_slice)
            total.update(_text((instance.name, numbers[instance.block], instance.inputs, place)).encode())
        total.update(_text((graph.ties, graph.origins)).encode())
        yield total.hexdigest()[:16]


def _blocks_in_use(graph: Graph) -> Iterator[str]:
    return (instance.block for instance in graph.instances)


@dataclass
class _Texts:
    """Texts of parts of graphs, made once: most of what a pass gives is what it was given."""

    _known: dict[int, tuple[object, str]] = field(default_factory=dict)

    def of(self, part: T, write: Callable[[T], str]) -> str:
        """The text of a part. The part is kept with it: no other object gets its id meanwhile."""
        if id(part) not in self._known:
            self._known[id(part)] = (part, write(part))
        return self._known[id(part)][1]

    def block(self, block: Block) -> str:
        border = (block.feeds, block.inputs, block.outputs, block.parameters, block.shared, block.loss)
        lines = [_text((border, block.recomputed, block.gradients, block.row_gradients))]
        lines += [f"frozen {_text(block.frozen)}"] if block.frozen else []
        lines += [f"{name} {self.of(block.values[name], _value_text)}" for name in sorted(block.values)]
        lines += [self.of(node, self._node) for node in block.nodes]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _node(self, node: Node) -> str:
        how = (node.phase, str(node.strategy), node.masked, node.kernel, node.piece, node.place, node.chunked)
        operator = self.of(node.operator, _text)
        return f"{operator} {_text((node.name, node.inputs, node.outputs, node.origin, how))}"


def _value_text(value: Value) -> str:
    where = (value.copy_of, value.num_ids, value.part, value.place)
    return f"{value.type} {value.role} {value.layout} {_text(where)}"


def _text(value: Any) -> str:
    """The text of a value made of dataclasses, collections, arrays and plain values; sets in order."""
    match value:
        case enum.Enum():
            return str(value.value)
        case np.ndarray():
            return _text(value.tolist())
        case Mapping():
            return f"{{{', '.join(sorted(f'{_text(key)}: {_text(value[key])}' for key in value))}}}"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(_text, value)))}}}"
        case tuple() | list():
            return f"({', '.join(map(_text, value))})"
    if is_dataclass(value):
        attributes = (_text(getattr(value, field.name)) for field in fields(value))
        return f"{getattr(value, 'kind', '')}({', '.join(attributes)})"
    return repr(value)
