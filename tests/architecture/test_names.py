"""Names that a test can hold: one meaning each, in the words of the field; fields documented one by one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import simcluster
from tests.support.source_trees import source_tree

ROOT = Path(simcluster.__file__).parent
COMMANDS = "cli/commands/"
"""A command is a function with the name that users type, in a module of that name."""
PRIVATE_WORDS = re.compile(
    "told|away|beside|rest|mine|begun|held|lodger|conduct|wish|due|travel|acted|house|room|door|guest"
)
"""Words that say nothing to someone who knows the field, but not this code."""
SAYS_NOTHING = {"found", "each", "mine"}
"""Names of variables that say nothing of what these hold."""
DOCUMENT_KEYS = re.compile("Spec$|^Result$")
"""Sections of a scenario, and the result: their fields are keys of documents, which users write and read."""
MANY_FIELDS = 8


def public(tree):
    """(kind of node, name) of all that a module defines for others."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        else:
            continue
        yield from ((node, name) for name in names if not name.startswith("_"))


@cache
def files():
    """(path, tree) of every module."""
    return [(path.relative_to(ROOT).as_posix(), source_tree(path)) for path in sorted(ROOT.rglob("*.py"))]


@cache
def names():
    """(path, node, name) of all that modules define for others."""
    return [(path, node, name) for path, tree in files() for node, name in public(tree)]


def words(name):
    """``LATE_WEIGHT`` and ``LateWeight`` as their words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def members(tree):
    """(class, name) of attributes and methods of public classes, but for keys of documents."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield node.name, member.name
                elif isinstance(member, ast.AnnAssign) and not DOCUMENT_KEYS.search(node.name):
                    yield node.name, member.target.id


def stored(tree):
    """(line, name) of every variable that a module, or a function in it, assigns."""
    return {
        (node.lineno, node.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def fields(node):
    """Field -> whether it has a text of its own, of the public fields of a class."""
    following = [*node.body[1:], ast.Pass()]
    return {
        field.target.id: isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        for field, after in zip(node.body, following, strict=True)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not field.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(field.annotation)
    }


def test_no_two_public_classes_have_one_name():
    places = defaultdict(list)
    for path, node, name in names():
        if isinstance(node, ast.ClassDef):
            places[name].append(path)
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_nothing_has_the_name_of_its_module():
    """It would hide the module where the package exports it."""
    assert not [
        path
        for path, node, name in names()
        if name == Path(path).stem and not path.startswith(COMMANDS) and not isinstance(node, ast.Assign)
    ]


def test_public_names_are_words_of_the_field():
    assert not [
        f"{path}: {name}"
        for path, _, name in names()
        if any(PRIVATE_WORDS.fullmatch(word) for word in words(name))
    ]


def test_public_members_are_words_of_the_field():
    assert not [
        f"{path}: {owner}.{name}"
        for path, tree in files()
        for owner, name in members(tree)
        if not name.startswith("_") and any(PRIVATE_WORDS.fullmatch(word) for word in words(name))
    ]


def test_variables_say_what_they_hold():
    assert not [
        f"{path}:{line}: {name}"
        for path, tree in files()
        for line, name in sorted(stored(tree))
        if name in SAYS_NOTHING
    ]


def test_many_fields_are_documented_one_by_one():
    """An editor shows what stands below a field, and nothing of a paragraph about all of them."""
    classes = [(path, node.name, fields(node)) for path, node, _ in names() if isinstance(node, ast.ClassDef)]
    large = [(path, name, documented) for path, name, documented in classes if len(documented) >= MANY_FIELDS]
    assert large
    assert not [
        f"{path}: {name}.{field}"
        for path, name, documented in large
        for field, has_text in documented.items()
        if not has_text
    ]
