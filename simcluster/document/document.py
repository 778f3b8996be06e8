"""A parsed YAML text that knows where each of its keys and values is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from simcluster.deferred_dataclass import dataclass
from simcluster.document.composer import compose
from simcluster.document.file import text_of
from simcluster.document.mark import Mark, SourceText
from simcluster.document.syntax import error_at
from simcluster.document.tree import DocumentNode, Key, keys_of
from simcluster.errors import Problem, ScenarioError, SimclusterError

Error = TypeVar("Error", bound=SimclusterError)


@dataclass(frozen=True, eq=False)
class Document:
    """A YAML 1.2 text as plain data, with the place of every key and value.

    ``name`` is shown in errors as the user gave it; ``data`` is a dict of dicts, lists, text, numbers,
    booleans and None; ``root`` is the tree of nodes with their places.
    """

    name: str
    data: dict[Any, Any]
    source: SourceText = field(repr=False)
    root: DocumentNode = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Document:
        """The document in a file; raises ScenarioError if it cannot be read or is not plain YAML 1.2."""
        return cls.parse(text_of(Path(path), str(path)), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "<text>") -> Document:
        """The document in a text; raises ScenarioError, with line and column, if it is not plain YAML 1.2."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        source = SourceText(name, text)
        root = _mapping(source)
        return cls(name, root.data, source, root)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the text, without their ends."""
        return self.source.lines[:-1] if self.source.lines[-1] == "" else self.source.lines

    def mark(self, path: str | Sequence[Key]) -> Mark:
        """The place of a key path, or of its deepest ancestor that exists."""
        keys = keys_of(self.data, path) if isinstance(path, str) else path
        return self.root.find(keys)[0].place

    def where(self, path: str) -> str:
        """``file:line:column`` of a key path such as ``parallel.strategies.0.match``.

        A scalar is pointed at itself, a mapping or a list at its key; where the path does not exist, its
        deepest ancestor that does. A value given by ``with_value`` answers ``--set path=value``.
        """
        return str(self.mark(path))

    def located(self, error: Error) -> Error:
        """The same error with the place and the source line of every problem that has only a key path."""
        return type(error)(*(self._located(problem) for problem in error.problems))

    def _located(self, problem: Problem) -> Problem:
        if problem.where:
            return problem
        if not problem.path:
            return replace(problem, where=self.name)
        keys = keys_of(self.data, problem.path)
        node, depth = self.root.find(keys)
        where = str(node.place) if depth == len(keys) else f"{node.place}: {problem.path}"
        excerpt = node.place.excerpt() if depth else ""
        changed = [f"    changed by {name}" for name in node.inline] if excerpt else []
        return replace(problem, where=where, excerpt="\n".join([excerpt, *changed]))

    def with_value(self, path: str, text: str, option: str = "--set") -> Document:
        """A copy in which the value at the key path is ``text``, read as YAML: ``--set path=text``.

        Errors name the value with ``option``, by which the user gave it.
        Mappings on the way are created where absent; list items are named by index. Raises ScenarioError for
        text that is not YAML, an index out of range, or a path through a scalar.
        """
        source = SourceText(f"{option} {path}={text}", text, inline=True)
        value = _composed(source) or DocumentNode(None, source.mark(0), source.mark(0))
        if not all(path.split(".")):
            raise error_at(source, 0, "write KEY=VALUE, with a key such as parallel.mesh.tensor")
        try:
            root = self.root.with_value(keys_of(self.data, path), value)
        except ValueError as error:
            raise error_at(source, 0, str(error)) from None
        return Document(self.name, root.data, self.source, root)


@lru_cache(maxsize=256)
def _composed(source: SourceText) -> DocumentNode | None:
    """The root node of a text of a command line, or of a search, which writes the same again and again."""
    return compose(source)


def _mapping(source: SourceText) -> DocumentNode:
    """The root node of a text, which must be a mapping."""
    root = compose(source)
    if root is None or root.data is None:
        message = "the file is empty; expected lines of 'key: value'"
        raise ScenarioError(Problem(message, where=source.name))
    if not isinstance(root.data, dict):
        kind = "a list" if isinstance(root.data, list) else "text"
        raise error_at(
            source, 0, f"the file holds {kind}; expected lines of 'key: value', with a space after ':'"
        )
    return root


def inline_data(name: str, text: str) -> Any:
    """The plain data of a text such as ``4`` or ``{data: 8}``; None of an empty one.

    Raises ScenarioError, at ``name``, for what is not YAML.
    """
    node = compose(SourceText(name, text, inline=True))
    return None if node is None else node.data
