"""Files of the user's own in place of entries of the catalog: ``model: ./mine.yaml``.

Such a file is read as the catalog's are, and its keys stand in the scenario from then on: each knows its
place in its own file, so that errors point there. Keys beside ``use`` replace those of the file. Paths in it
start at its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Document, DocumentNode, Key, plain_nodes, real_path
from simcluster.errors import Problem, ScenarioError

SUFFIXES = (".yaml", ".yml")
"""What ends a name that is a file's."""

_SECTIONS = ("model", "framework", "host", "device")
"""Keys whose plain text names an entry."""

_HOSTS = "hosts"
"""A mapping with this key names a host by ``use``, and has it written out under ``host``."""

_PATHS = ("hf", "onnx")
"""Keys of entries that name further files."""

_ABOUT = ("simcluster",)
"""A key of scenarios alone: no entry has it."""


def with_entry_files(document: Document, folder: Path) -> Document:
    """The document with the content of the files that it names in place of catalog entries.

    ``folder`` is where their paths start. Raises ScenarioError, with places, for files that cannot be read,
    that are scenarios, or that name themselves.
    """
    reader = _Reader([])
    root = reader.section(document.root, folder, ())
    if reader.problems:
        raise ScenarioError(*reader.problems)
    return document if root is document.root else replace(document, data=root.data, root=root)


def with_entry_files_in(data: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The same for plain data."""
    reader = _Reader([])
    root = reader.section(plain_nodes(data), folder, ())
    if reader.problems:
        raise ScenarioError(*reader.problems)
    content: Mapping[str, Any] = root.data
    return content


def has_entry_files(document: Document) -> bool:
    """Whether parts of the document were read from files of their own."""
    return any(_names_of(document.root) - {document.name})


def _names_of(node: DocumentNode) -> set[str]:
    names = {node.key.name} if node.key.line else set()
    return names.union(*map(_names_of, node.children.values()))


@dataclass(frozen=True)
class _Reader:
    """Replaces names of files by what is in them; ``problems`` are those met."""

    problems: list[Problem]

    def section(self, node: DocumentNode, folder: Path, inside: tuple[Path, ...]) -> DocumentNode:
        """A mapping or list with the files that it names in it; ``inside`` are those being read."""
        if not node.children:
            return node
        children: dict[Key, DocumentNode] = {}
        for key, child in node.children.items():
            if key in _SECTIONS and _names_file(child):
                children[key] = self._content(child, folder, inside)
            else:
                children[key] = self.section(child, folder, inside)
        named = node.children.get("use")
        if named is not None and isinstance(node.data, dict) and _names_file(named):
            content = self._content(named, folder, inside)
            del children["use"]
            if _HOSTS in children:
                children = {"host": content, **children}
            else:
                return _merged(replace(content, key=node.key), node.with_children(children))
        if all(children[key] is node.children.get(key) for key in children):
            return node
        return node.with_children(children)

    def _content(self, named: DocumentNode, folder: Path, inside: tuple[Path, ...]) -> DocumentNode:
        """What is in a file, under the key that names it; nothing, and a problem, if it cannot be read."""
        path = folder / named.data
        place = real_path(path)
        try:
            if place in inside:
                raise ScenarioError(f"{path} names itself, by way of others or at once")
            document = Document.read(path)
            if wrong := [key for key in _ABOUT if key in document.data]:
                message = "this is a scenario, not a part of one: it has a key 'simcluster'"
                raise document.located(ScenarioError(Problem(message, wrong[0])))
        except ScenarioError as error:
            self.problems.extend(self._shown(problem, path, named) for problem in error.problems)
            return named
        root = self.section(document.root, path.parent, (*inside, place))
        return replace(_at_home(root, path.parent), key=named.key)

    def _shown(self, problem: Problem, path: Path, named: DocumentNode) -> Problem:
        """A problem in a file at its place there; one of the file as a whole where it is named."""
        if problem.where and problem.where != str(path):
            return problem
        message = problem.message if not problem.where else f"{path}: {problem.message}"
        return replace(problem, message=message, where=str(named.place), excerpt=named.place.excerpt())


def _names_file(node: DocumentNode) -> bool:
    return isinstance(node.data, str) and Path(node.data).suffix in SUFFIXES


def _at_home(node: DocumentNode, folder: Path) -> DocumentNode:
    """An entry whose paths to further files start where those of the scenario do."""
    children = {
        key: replace(child, data=str(folder / child.data))
        if key in _PATHS and isinstance(child.data, str)
        else child
        for key, child in node.children.items()
    }
    return node.with_children(children)


def _merged(entry: DocumentNode, changes: DocumentNode) -> DocumentNode:
    """An entry with changes: sections key by key, a figure or a list as a whole."""
    children = dict(entry.children)
    for key, change in changes.children.items():
        own = children.get(key)
        if own is not None and isinstance(own.data, str) and isinstance(change.data, dict):
            own = replace(
                own, data={"use": own.data}, children={"use": own}
            )  # device: h100-sxm, with changes
        if (
            own is None
            or not isinstance(change.data, dict)
            or not isinstance(own.data, dict)
            or "value" in own.data
        ):
            children[key] = change
        else:
            children[key] = _merged(own, change)
    return entry.with_children(children)
