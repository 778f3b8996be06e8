"""Names that other tools have for keys of a document: read as those keys, and listed in its schema.

Renaming comes before validation. Nodes keep their marks, so an error points at what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document.document import Document
from simcluster.document.section import Name, Section
from simcluster.document.tree import DocumentNode, Key, plain_nodes
from simcluster.errors import Problem, ScenarioError, nearest


class OtherNameSpec(Section):
    """What a key stands for that another tool would write."""

    path: Name
    """The key path that it stands for."""

    values: dict[Name | bool, Any] = {}
    """Its words, where they are others; what is not among them stays."""

    unit: Name | None = None
    """What its plain numbers count."""

    first: bool = False
    """It comes before the other keys of its mapping, where their order matters."""

    default: bool | tuple[Name, ...] = False
    """It counts only where nothing else says the same; of a list, these words of it alone. Of a mapping that
    it stands for, keys count that nothing else says."""

    needs: Name | None = None
    """The name of the tool's switch without which it says nothing."""


@dataclass(frozen=True, slots=True)
class OtherNames:
    """Key path as a tool writes it -> the tool, and what it stands for.

    ``besides`` reads other names that are no fixed key paths, after these.
    """

    names: Mapping[str, tuple[str, OtherNameSpec]]
    besides: Callable[[DocumentNode], DocumentNode] | None = None

    def read(self, document: Document) -> Document:
        """The document with its own keys only.

        Raises ScenarioError, with places, where one thing is said twice or a mapping of the other tool holds
        a key that is not known. What ``--set`` gives replaces what the file says, whatever both are called.
        """
        try:
            root = self._renamed(document.root)
        except ScenarioError as error:
            raise document.located(error) from None
        return document if root is document.root else replace(document, data=root.data, root=root)

    def read_data(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Plain data with its own keys only; ScenarioError, with key paths, as ``read``."""
        renamed: Mapping[str, Any] = self._renamed(plain_nodes(data)).data
        return renamed

    def in_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A document's JSON schema that knows these names too."""
        for name, (tool, meant) in self.names.items():
            *parents, last = name.split(".")
            place = schema
            for parent in parents:
                place = _properties(schema, place).setdefault(parent, _mapping(f"{tool}'s."))
            _properties(schema, place)[last] = _schema_of_name(schema, tool, meant)
        return schema

    # -- reading ----------------------------------------------------------------------------------------

    def _renamed(self, root: DocumentNode) -> DocumentNode:
        written = root
        problems = self._switched_off(root)
        for name, node in self._written(root):
            tool, meant = self.names[name]
            target, value = tuple(meant.path.split(".")), _meaning(node, meant)
            said = _has(root, target)
            root = _without(root, tuple(name.split(".")))
            is_off, yields, own = _is_off(value), _yields(node, meant), _has(written, target)
            if said and meant.default and isinstance(value.data, Mapping) and not is_off:
                root = _completed(root, target, value)
                continue
            if said and not (node.is_set and (own or is_off or not yields)):
                if (own or not yields) and (is_off or meant.default is not True):
                    message = f"{tool} calls '{meant.path}' so, which is written too"
                    problems.append(Problem(message, name, "leave one of them out"))
                continue
            root = _put(root, target, value, meant.first)
        problems += self._left(root)
        if problems:
            raise ScenarioError(*problems)
        return root if self.besides is None else self.besides(root)

    def _written(self, root: DocumentNode) -> list[tuple[str, DocumentNode]]:
        """The names that the document has, and what stands there; defaults come last."""
        paths = {name: tuple(name.split(".")) for name in self.names}
        here = [(name, root.find(path)[0]) for name, path in paths.items() if _has(root, path)]
        return sorted(here, key=lambda item: _yields(item[1], self.names[item[0]][1]))

    def _switched_off(self, root: DocumentNode) -> list[Problem]:
        """What is written although the switch that it needs is off, or is not there."""
        problems = []
        for name, _ in self._written(root):
            _, meant = self.names[name]
            if meant.needs is None:
                continue
            switch, there = root.find(tuple(meant.needs.split(".")))
            target = tuple(self.names[meant.needs][1].path.split("."))
            is_on = _has(root, target) and not _is_off(root.find(target)[0])
            if there == meant.needs.count(".") + 1:
                is_on = switch.data is True
            if not is_on:
                message = f"it says nothing without {meant.needs.rpartition('.')[2]}: true"
                problems.append(Problem(message, name, f"write {meant.needs}: true, or leave it out"))
        return problems

    def _left(self, root: DocumentNode) -> list[Problem]:
        """What is left of mappings that only the other tool has."""
        parents = {
            name.rpartition(".")[0]: tool for name, (tool, _) in self.names.items() if name.count(".") > 1
        }
        problems = []
        for parent, tool in parents.items():
            keys = tuple(parent.split("."))
            node, depth = root.find(keys)
            known = [name.rpartition(".")[2] for name in self.names if name.startswith(f"{parent}.")]
            if depth == len(keys):
                for key in node.children:
                    message = f"'{key}' is not known of {tool}'s {keys[-1]}"
                    problems.append(Problem(message, f"{parent}.{key}", nearest(str(key), known)))
        return problems


def _schema_of_name(schema: dict[str, Any], tool: str, meant: OtherNameSpec) -> dict[str, Any]:
    """The schema of a name: that of what it stands for, with the other tool's words."""
    description = {"description": f"{tool}'s name of {meant.path}."}
    if meant.unit:
        return {"type": "number", "description": f"{tool}'s name of {meant.path}, in {meant.unit}."}
    place: dict[str, Any] = schema
    for key in meant.path.split("."):
        mapping = _resolved(schema, place)
        place = mapping.get("properties", {}).get(key) or mapping["additionalProperties"]
    own = {key: part for key, part in place.items() if key not in ("default", "description")}
    if not meant.values:
        return own | description
    words = {"enum": list(dict.fromkeys([*meant.values, *place.get("enum", ())]))}
    if "enum" in place or not any(isinstance(word, str) for word in meant.values):
        return words | description
    return {"anyOf": [words, own], **description}


def _meaning(node: DocumentNode, meant: OtherNameSpec) -> DocumentNode:
    """The node with its value in the document's own words."""
    data = node.data
    if meant.values and isinstance(data, (str, bool)) and data in meant.values:
        return plain_nodes(meant.values[data], node.mark, node.key)
    if meant.unit and isinstance(data, (int, float)) and not isinstance(data, bool):
        return replace(node, data=f"{data} {meant.unit}")
    return node


def _yields(node: DocumentNode, meant: OtherNameSpec) -> bool:
    """Whether the node counts only where nothing else says the same."""
    return meant.default if isinstance(meant.default, bool) else node.data in meant.default


def _is_off(value: DocumentNode) -> bool:
    """Whether a value says that there is nothing of the kind: null, or a mapping with nothing else."""
    children = value.children.values()
    return value.data is None or (bool(children) and all(child.data is None for child in children))


def _has(root: DocumentNode, path: Sequence[Key]) -> bool:
    """Whether something stands at a path, be it null."""
    return root.find(path)[1] == len(path)


def _completed(root: DocumentNode, path: Sequence[Key], value: DocumentNode) -> DocumentNode:
    """A copy in which the mapping at a path has the keys of another one that it lacks."""
    for key, child in value.children.items():
        if not _has(root, (*path, key)):
            root = _put(root, (*path, key), child, False)
    return root


def _without(node: DocumentNode, keys: Sequence[Key]) -> DocumentNode:
    """A copy without a key; a mapping that holds nothing else goes with it."""
    first, *deeper = keys
    children = dict(node.children)
    left = _without(children[first], deeper) if deeper else None
    if left is None or not left.children:
        del children[first]
    else:
        children[first] = left
    return node.with_children(children)


def _put(root: DocumentNode, path: Sequence[Key], value: DocumentNode, first: bool) -> DocumentNode:
    """A copy in which a value stands at a path, whatever stood there."""
    try:
        root = root.with_value(tuple(path), value)
    except ValueError as error:
        raise ScenarioError(Problem(str(error), where=str(value.place))) from None
    if not first:
        return root
    parent, _ = root.find(path[:-1])
    children = {path[-1]: parent.children[path[-1]], **parent.children}
    return root.with_value(tuple(path[:-1]), parent.with_children(children))


def _resolved(schema: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """What stands at a place of a schema, behind references and beside null."""
    while True:
        if "$ref" in place:
            place = schema["$defs"][place["$ref"].rpartition("/")[2]]
        elif "anyOf" in place and "properties" not in place:
            place = next((part for part in place["anyOf"] if "$ref" in part or "properties" in part), {})
        else:
            return place


def _properties(schema: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = _resolved(schema, place).setdefault("properties", {})
    return properties


def _mapping(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
        "description": description,
    }
