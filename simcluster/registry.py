"""Families found by listing a folder: one file adds one thing.

A data family (devices, hosts, models, recipes, framework profiles) is a folder of YAML files; a code family
(operators, collective algorithms, schedules) is a package whose modules each declare final classes.
Installed packages may add code through the entry point group named after the family's package.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints
    from importlib.resources.abc import Traversable

Kind = TypeVar("Kind")


@cache
def data_files(package: str) -> dict[str, Traversable]:
    """The YAML files of a data family by name (``simcluster.cluster.devices`` -> ``{"h100-sxm": ...}``)."""
    from importlib.resources import files as resource_files  # slow to import, and help lists no files

    root, *folders = package.split(".")
    files = resource_files(root).joinpath(*folders).iterdir()  # without importing the packages between
    return {
        entry.name.removesuffix(".yaml"): entry
        for entry in sorted(files, key=lambda entry: entry.name.removesuffix(".yaml"))
        if entry.name.endswith(".yaml")
    }


def names_in(path: str) -> tuple[str, ...]:
    """The names in a text file of the package, one a line; no package is imported."""
    return tuple((Path(__file__).parent / path).read_text(encoding="utf-8").split())


def kinds(package: str, base: type[Kind]) -> dict[str, type[Kind]]:
    """The concrete subclasses of ``base`` declared in the modules of ``package``, by their ``kind``.

    Raises ValueError if two classes claim one kind.
    """
    by_kind: dict[str, type[Kind]] = {}
    for member in _concrete_classes(package):
        if issubclass(member, base) and member is not base:
            kind: str = member.kind  # type: ignore[attr-defined]
            if by_kind.setdefault(kind, member) is not member:
                raise ValueError(f"{package}: two classes of kind '{kind}': {by_kind[kind]} and {member}")
    return by_kind


@cache
def _entry_points() -> Callable[..., EntryPoints]:
    """What selects among those of all installed packages, of which each has a file that is read here."""
    from importlib.metadata import entry_points  # slow to import, and help needs none

    return entry_points().select


@cache
def _concrete_classes(package: str) -> tuple[type, ...]:
    """What the modules of a package, and those that installed packages add, declare themselves."""
    root = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(root.__path__))
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    added = _entry_points()(group=package)
    modules += [point.load() for point in sorted(added, key=lambda point: point.name)]
    return tuple(
        member
        for module in modules
        for member in vars(module).values()
        if inspect.isclass(member) and member.__module__ == module.__name__ and not inspect.isabstract(member)
    )
