"""pydantic's errors in our own words: one sentence for each mistake, with the accepted form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import ErrorDetails

from simcluster.deferred_dataclass import dataclass
from simcluster.document.scalar import resolve
from simcluster.document.section import Refused
from simcluster.document.shape import Shape
from simcluster.document.tree import Key, key_text
from simcluster.document.wording import (
    BOOLEAN,
    INTEGER,
    LIST,
    MAPPING,
    NOTHING,
    NUMBER,
    TEXT,
    bounds_phrase,
    count_phrase,
    kind_of,
    spelled_value,
)
from simcluster.errors import nearest

_FOUND = {
    TEXT: "text",
    INTEGER: "a number",
    NUMBER: "a number",
    BOOLEAN: "a boolean",
}
_BOUNDS = {
    "greater_than": ("gt", "too small"),
    "greater_than_equal": ("ge", "too small"),
    "less_than": ("lt", "too large"),
    "less_than_equal": ("le", "too large"),
    "multiple_of": ("multiple_of", "not accepted"),
}
_LENGTHS = {
    "too_short": ("min_length", "at least", "item"),
    "too_long": ("max_length", "at most", "item"),
    "string_too_short": ("min_length", "at least", "character"),
    "string_too_long": ("max_length", "at most", "character"),
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """One mistake: the path of keys to it, what is wrong, and whether the key itself is the mistake."""

    path: tuple[Key, ...]
    message: str
    at_key: bool = False


def unknown_key(path: tuple[Key, ...], section: Shape | None) -> Complaint:
    """A key that its section does not have."""
    name = key_text(path[-1])
    fields = section.fields if section else {}
    known = [field for field, shape in fields.items() if not shape.is_hidden]
    if section and name in known:
        other = section.canonical(name)
        said = "is given under two names" if other == name else f"is another name of '{other}'"
        return Complaint(path, f"'{name}' {said}; keep one of them", at_key=True)
    hint = (section.instead_of(name) if section else "") or suggestion(name, known)
    if ":" in name:
        hint = f"is a space missing after ':'? {hint}"
    return Complaint(path, f"unknown key '{name}'; {hint}" if hint else f"unknown key '{name}'", at_key=True)


def missing_key(path: tuple[Key, ...], section: Shape | None) -> Complaint:
    """A key, or an item of a list, that must be there and is not."""
    wanted = section.child(path[-1]) if section else None
    accepted = f"; write {wanted.wants}" if wanted else ""
    if isinstance(path[-1], int):
        return Complaint(path, f"item {path[-1] + 1} of the list is missing{accepted}")
    name = section.canonical(key_text(path[-1])) if section else key_text(path[-1])
    return Complaint((*path[:-1], name), f"'{name}' is missing{accepted}")


def wrong_form(value: Any, shape: Shape | None) -> str:
    """A value of a form that is not accepted: what was found and what is wanted."""
    wants = shape.wants if shape else "a value of another form"
    kinds = shape.kinds if shape else frozenset()
    kind = kind_of(value)
    if shape and shape.options and kind not in (LIST, MAPPING, NOTHING):
        return not_one_of(value, shape.options, shape.wants)
    if kind == TEXT and kinds & {INTEGER, NUMBER} and kind_of(_number(value)) in kinds:
        return f"{spelled_value(value)} is text; write {value.strip()} without quotes"
    if kind == NUMBER and kinds & {INTEGER} and NUMBER not in kinds:
        better = str(int(value)) if value.is_integer() and abs(value) < 2**53 else wants
        return f"{value} is not an integer; write {better}"
    if kinds == {TEXT} and wants == "text" and kind in _FOUND:
        return f"{spelled_value(value)} is {_FOUND[kind]}; write it as text, in quotes"
    if kind == NOTHING:
        return f"no value is given; write {wants}"
    if kind in _FOUND:
        return f"{spelled_value(value)} is {_FOUND[kind]}; write {wants}"
    return f"found a {kind}; write {wants}"


def not_one_of(value: Any, options: Iterable[Any], wants: str) -> str:
    """A value that is none of the options: the nearest of them, and the accepted forms."""
    near = near_option(value, options)
    remedy = f"{near} Accepted: {wants}" if near else f"write {wants}"
    return f"{spelled_value(value)} is not accepted; {remedy}"


def near_option(value: Any, options: Iterable[Any]) -> str:
    """``did you mean 'bf16'?``, or nothing when no option is near."""
    hint = suggestion(value, [option for option in options if isinstance(option, str)]) if value else ""
    return hint if hint.startswith("did you mean") else ""


def suggestion(name: Any, known: Iterable[str]) -> str:
    """``did you mean 'mesh'?``; without a near name, the known ones."""
    if not isinstance(name, str):
        return ""
    known = list(known)
    alike = {_folded(candidate): candidate for candidate in reversed(known)}
    if _folded(name) in alike:
        return f"did you mean '{alike[_folded(name)]}'?"
    return nearest(name, known)


def error_sentence(error: ErrorDetails, path: tuple[Key, ...], shape: Shape | None) -> str:
    """What is wrong with one value, from pydantic's finding and the shape that was wanted."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(context["error"]) or wrong_form(value, None)
    if kind == "not_supported":
        return f"'{key_text(path[-1])}' is not supported yet"
    if kind == "finite_number":
        return f"{spelled_value(value)} is not a finite number; write {shape.wants if shape else 'a number'}"
    if kind in _BOUNDS:
        bound, trouble = _BOUNDS[kind]
        wants = shape.wants if shape and bound in shape.inner().schema else bounds_phrase("a value", context)
        return f"{spelled_value(value)} is {trouble}; write {wants}"
    if kind in _LENGTHS:
        bound, word, unit = _LENGTHS[kind]
        subject = spelled_value(value) if unit == "character" else f"the {kind_of(value)}"
        return f"{subject} has {count_phrase(len(value), unit)}; write {word} {context[bound]}"
    if kind == "string_pattern_mismatch":
        return f"{spelled_value(value)} does not have the form {context['pattern']}"
    if not error["msg"].startswith(("Input ", "Unable ", "Field ", "Object ")) and kind not in _TYPES:
        return str(error["msg"])
    return wrong_form(value, shape)


# pydantic's own kinds whose text does not begin as its others do; all mean a value of the wrong form.
_TYPES = {"union_tag_not_found", "invalid_key", "recursion_loop", "callable_type", "needs_python_object"}


def is_about_form(error: ErrorDetails) -> bool:
    """Whether the value has the wrong form altogether, not just a wrong amount or a refusal."""
    return error["type"] not in _BOUNDS and error["type"] not in (
        "value_error",
        "assertion_error",
        "finite_number",
        "not_supported",
        "string_pattern_mismatch",
        *_LENGTHS,
    )


def refusal_problems(error: ErrorDetails) -> tuple[tuple[str, str], ...]:
    """The paths and messages of a validator that points inside its section; empty for all other errors."""
    refused = error.get("ctx", {}).get("error")
    if not isinstance(refused, Refused):
        return ()
    return tuple(
        (problem.path, f"{problem.message}; {problem.hint}" if problem.hint else problem.message)
        for problem in refused.problems
    )


def _number(text: str) -> Any:
    try:
        return resolve(text.strip())
    except ValueError:
        return text


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")
