"""The full YAML 1.2 reader: text -> nodes with marks, through ruamel.yaml's event stream.

Safe by construction: tags are refused, so nothing is ever built but plain data; nesting and what aliases
stand for are bounded. Anchors, aliases and merge keys (``<<: *name``) work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from simcluster.document.mark import Mark, SourceText
from simcluster.document.scalar import resolve
from simcluster.document.syntax import error_at, syntax_error
from simcluster.document.tree import DocumentNode, Key, key_text
from simcluster.errors import ScenarioError

MAX_DEPTH = 64
MAX_ALIASED = 100_000
"""How many values aliases may stand for in one file, all copies counted."""

_BEYOND_UNICODE = re.compile(r"\\U(?!000|0010)")
_SURROGATE = re.compile("[\ud800-\udfff]")


def compose(source: SourceText) -> DocumentNode | None:
    """The root node of the only document in the source; None if it holds nothing at all.

    Raises ScenarioError, with its place, for anything that is not plain YAML 1.2.
    """
    try:
        return _Composer(source).document()
    except YAMLError as error:
        raise syntax_error(source, error) from None
    except (ValueError, OverflowError):  # the parser's own slip over an escape beyond Unicode
        beyond = _BEYOND_UNICODE.search(source.text)
        index = beyond.start() if beyond else 0
        raise error_at(source, index, "this escape is not a Unicode character") from None


class _Composer:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(source.text)
        self.anchors: dict[str, tuple[DocumentNode, int]] = {}
        self.count = 0
        self.aliased = 0

    def document(self) -> DocumentNode | None:
        root: DocumentNode | None = None
        for event in self.events:
            match type(event).__name__:
                case "DocumentStartEvent" if root is not None:
                    raise self.error(event, "a second YAML document starts here; one file holds one")
                case "DocumentStartEvent":
                    if event.version not in (None, (1, 2)):
                        raise error_at(self.source, 0, "simcluster reads YAML 1.2; remove the %YAML line")
                    root = self.node(next(self.events), None, 0)
        return root

    def node(self, event: Any, key: Mark | None, depth: int) -> DocumentNode:
        """The value that starts with this event; ``key`` is the place of its key, if it has one."""
        mark = self.source.mark(event.start_mark.index)
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self.alias(event, mark, key or mark)
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            raise self.error(event, f"the tag {tag} is not accepted; write plain values, text in quotes")
        if depth > MAX_DEPTH:
            raise self.error(event, f"nested more than {MAX_DEPTH} levels deep")
        before = self.count
        self.count += 1
        if kind == "ScalarEvent":
            node = self.scalar(event, mark, key or mark)
        elif kind == "SequenceStartEvent":
            node = self.sequence(mark, key or mark, depth)
        else:
            node = self.mapping(mark, key or mark, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def alias(self, event: Any, mark: Mark, key: Mark) -> DocumentNode:
        if event.anchor not in self.anchors:
            raise self.error(
                event,
                f"the alias '*{event.anchor}' stands for nothing: no '&{event.anchor}' is complete above it"
                "; put text that starts with '*' in quotes",
            )
        node, count = self.anchors[event.anchor]
        self.count += count
        self.aliased += count
        if self.aliased > MAX_ALIASED:
            raise self.error(event, f"the aliases of this file stand for more than {MAX_ALIASED:,} values")
        return DocumentNode(node.data, mark, key, node.children)

    def scalar(self, event: Any, mark: Mark, key: Mark) -> DocumentNode:
        if event.style is not None:
            if _SURROGATE.search(event.value):
                raise self.error(event, "an escape in this text is not a Unicode character")
            return DocumentNode(event.value, mark, key)
        try:
            data = resolve(event.value)
        except ValueError as error:
            raise self.error(event, str(error)) from None
        return DocumentNode(data, mark if event.value else key, key)

    def sequence(self, mark: Mark, key: Mark, depth: int) -> DocumentNode:
        children: dict[Key, DocumentNode] = {}
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            children[len(children)] = self.node(event, None, depth + 1)
        return DocumentNode([child.data for child in children.values()], mark, key, children)

    def mapping(self, mark: Mark, key: Mark, depth: int) -> DocumentNode:
        children: dict[Key, DocumentNode] = {}
        merged: set[Key] = set()
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            name = self.node(event, None, depth + 1)
            value = self.node(next(self.events), name.mark, depth + 1)
            if name.children or isinstance(name.data, (dict, list)):
                raise self.error(event, "a key must be a single value, not a list or a mapping")
            if name.data == "<<" and event.style is None:
                inherited = {
                    name: node for name, node in self.merge(event, value).items() if name not in children
                }
                merged |= inherited.keys()
                children |= inherited
                continue
            if name.data in children and name.data not in merged:
                first = children[name.data].key
                raise self.error(event, f"duplicate key '{key_text(name.data)}'; it is already at {first}")
            merged.discard(name.data)
            children[name.data] = value
        return DocumentNode({name: child.data for name, child in children.items()}, mark, key, children)

    def merge(self, event: Any, value: DocumentNode) -> dict[Key, DocumentNode]:
        """What ``<<`` brings in; of several mappings the first that has a key wins."""
        parts = value.children.values() if isinstance(value.data, list) else [value]
        merged: dict[Key, DocumentNode] = {}
        for part in parts:
            if not isinstance(part.data, dict):
                raise self.error(event, "'<<' merges a mapping; write for example '<<: *name'")
            merged = merged | {key: node for key, node in part.children.items() if key not in merged}
        return merged

    def error(self, event: Any, message: str) -> ScenarioError:
        return error_at(self.source, event.start_mark.index, message)
