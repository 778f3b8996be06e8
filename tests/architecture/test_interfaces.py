"""Packages are imported from outside through what their ``__init__`` exports, and through nothing else."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import simcluster
from tests.support.source_trees import source_nodes, source_tree

ROOT = Path(simcluster.__file__).parent
MODULES = {
    ".".join(("simcluster", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
LAZY = "simcluster.cli"
"""The command line imports its own modules one by one when they are called: help must stay light."""
MOST_MODULES = 20
REGISTRIES = ("simcluster.model.operators",)
"""Folders of kinds, one file each, that may hold more."""


def imports(name):
    """(line, module) of everything that a module imports of simcluster; submodules by their own names."""
    for node in source_nodes(MODULES[name]):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "simcluster":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (
                    node.lineno,
                    inner if inner in MODULES and not exported(node.module, alias.name) else node.module,
                )
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] == "simcluster")


@cache
def exporting(package):
    """The imports of a package's ``__init__``, with those that are for readers alone and resolved lazily."""
    body = source_tree(MODULES[package]).body
    inner = [node for each in body if isinstance(each, ast.If) for node in each.body]
    return [node for node in (*body, *inner) if isinstance(node, ast.ImportFrom)]


def exported(package, name):
    """Whether a package's ``__init__`` exports the name, so that it is no submodule."""
    return package in PACKAGES and any(
        (alias.asname or alias.name) == name for node in exporting(package) for alias in node.names
    )


def past_the_interface(importer, imported):
    """Whether an import reaches into a package that the importer is not part of."""
    own = importer.split(".")
    parts = imported.split(".")
    packages = [".".join(parts[:count]) for count in range(1, len(parts))]
    return any(
        package in PACKAGES and own[: package.count(".") + 1] != package.split(".") for package in packages
    )


def test_packages_are_imported_through_what_they_export():
    faults = [
        f"{name}:{line} imports {imported}"
        for name in sorted(MODULES)
        for line, imported in imports(name)
        if past_the_interface(name, imported) and not (name.startswith(LAZY) and imported.startswith(LAZY))
    ]
    assert not faults, "\n".join(faults)


def test_packages_export_by_name():
    """What __init__ imports is in __all__, sorted, so that a reader finds the interface in one list."""
    for name in sorted(PACKAGES - {"simcluster", f"{LAZY}.commands"}):
        tree = source_tree(MODULES[name])
        names = {
            alias.asname or alias.name
            for node in exporting(name)
            if (node.module or "").startswith(f"{name}.")
            for alias in node.names
        }
        written = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        assert names <= set(written[0] if written else ()), name


def test_lazy_exports_are_what_readers_are_told():
    """A name that is resolved when it is used is the one that ``TYPE_CHECKING`` imports, and no submodule."""
    lazy = [name for name in sorted(PACKAGES) if "exported_lazily(" in MODULES[name].read_text()]
    assert "simcluster" in lazy
    for package in lazy:
        for node in exporting(package):
            for alias in node.names:
                if node.module != package:
                    assert f"{package}.{alias.name}" not in MODULES, package
                told = getattr(importlib.import_module(node.module), alias.name)
                assert getattr(importlib.import_module(package), alias.name) is told


def test_folders_hold_few_modules():
    counts = {}
    for name in set(MODULES) - PACKAGES:
        package = name.rpartition(".")[0]
        counts[package] = counts.get(package, 0) + 1
    crowded = {each: n for each, n in counts.items() if n > MOST_MODULES and each not in REGISTRIES}
    assert not crowded
