"""From a document to a model: all mistakes at once, each with its place, in document order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from simcluster.deferred_dataclass import dataclass
from simcluster.document.document import Document
from simcluster.document.error_messages import (
    Complaint,
    error_sentence,
    is_about_form,
    missing_key,
    near_option,
    not_one_of,
    refusal_problems,
    unknown_key,
    wrong_form,
)
from simcluster.document.shape import Shape
from simcluster.document.tree import Key, key_text, keys_of
from simcluster.document.wording import LIST, MAPPING, kind_of
from simcluster.errors import Problem, ScenarioError, SimclusterError

Model = TypeVar("Model", bound=BaseModel)


def validate(
    document: Document, model: type[Model], *, sourced: bool = False, folder: Path | None = None
) -> Model:
    """The document as a model; with ``sourced`` (catalogs) every ``Figure`` must name its source.

    ``folder`` is where relative paths in the document start; the working directory, if nothing is given.

    Raises ScenarioError with every mistake of the document, in the order in which they stand there, each with
    ``file:line:column``, the line itself and the accepted form.
    """
    try:
        return model.model_validate(document.data, context={"sourced": sourced, "folder": folder})
    except ValidationError as error:
        complaints = complaints_of(error, model, document.data)
        raise ScenarioError(*(_problem(complaint, document) for complaint in complaints)) from None
    except SimclusterError as error:
        raise document.located(error) from None


def validate_data(
    data: Mapping[str, Any],
    model: type[Model],
    name: str = "",
    *,
    sourced: bool = False,
    folder: Path | None = None,
) -> Model:
    """Plain data, from Python or a notebook, as a model; ``folder`` as for ``validate``.

    Raises ScenarioError with every mistake in the order of the data, each with its key path, after ``name``
    if one is given.
    """
    try:
        return model.model_validate(dict(data), context={"sourced": sourced, "folder": folder})
    except ValidationError as error:
        problems = []
        for complaint in complaints_of(error, model, data):
            path = ".".join(key_text(key) for key in complaint.path)
            where = ": ".join(part for part in (name, path) if part) if name else ""
            problems.append(Problem(complaint.message, path=path, where=where))
        raise ScenarioError(*problems) from None


def _problem(complaint: Complaint, document: Document) -> Problem:
    node, depth = document.root.find(complaint.path)
    mark = node.key if complaint.at_key else node.place
    path = ".".join(key_text(key) for key in complaint.path)
    # A key missing at the top has no line of its own to show.
    return Problem(complaint.message, path=path, where=str(mark), excerpt=mark.excerpt() if depth else "")


def complaints_of(error: ValidationError, model: type[BaseModel], data: Any) -> list[Complaint]:
    """What is wrong, in document order; of a union only the branch that the user most likely meant."""
    shape = Shape.of(model)
    every = error.errors(include_url=False)
    findings = [_trace(details, shape, data) for details in every if not _is_long_enough(details)]
    complaints = dict.fromkeys(_settled(findings, data, 0))
    return sorted(complaints, key=lambda complaint: _order(complaint.path, data))


def _is_long_enough(details: ErrorDetails) -> bool:
    """Whether a list is only called too short because of items that are wrong, which are told themselves."""
    written = details["input"]
    if details["type"] != "too_short" or not isinstance(written, Sequence | Mapping):
        return False
    return len(written) >= int(details.get("ctx", {}).get("min_length", 0))


@dataclass(frozen=True, slots=True)
class _Fork:
    """A union on the way to an error: where it stands, what it is, and the branch that was tried."""

    path: tuple[Key, ...]
    union: Shape
    label: str


@dataclass(frozen=True, slots=True)
class _Finding:
    """One of pydantic's errors with its path as keys, the unions passed, and the shapes at its end."""

    details: ErrorDetails
    path: tuple[Key, ...]
    forks: tuple[_Fork, ...]
    section: Shape | None
    shape: Shape | None
    at_key: bool = False


def _trace(details: ErrorDetails, root: Shape, data: Any) -> _Finding:
    """Follows the path of an error through the schema, and so tells keys from names of union branches."""
    path: tuple[Key, ...] = ()
    forks: list[_Fork] = []
    section: Shape | None = None
    shape: Shape | None = root
    for element in details["loc"]:
        if element == "[key]":
            return _Finding(
                details, path, tuple(forks), section, section.keys if section else None, at_key=True
            )
        choices = shape.choices() if shape else {}
        if shape and choices:
            if shape.type == "union":
                forks.append(_Fork(path, shape, str(element)))
            shape = choices.get(str(element))
            continue
        section, shape = shape, shape.child(element) if shape else None
        if not (section and section.shorthand == element and _is_plain(path, section, data)):
            path = (*path, element)
    return _Finding(details, path, tuple(forks), section, shape)


def _is_plain(path: tuple[Key, ...], section: Shape, data: Any) -> bool:
    """Whether the plain value of a section stands at the path, instead of a mapping with its keys."""
    value, written = _value_at(path, data)
    return written == path and not (isinstance(value, Mapping) and value.keys() & section.fields.keys())


def _settled(findings: Sequence[_Finding], data: Any, depth: int) -> Iterator[Complaint]:
    """The complaints of findings that agree on their first ``depth`` forks."""
    unions: dict[tuple[Key, ...], list[_Finding]] = {}
    for finding in findings:
        if len(finding.forks) == depth:
            yield from _complaints(finding, data)
        else:
            unions.setdefault(finding.forks[depth].path, []).append(finding)
    for path, group in unions.items():
        yield from _of_union(path, group, data, depth)


def _of_union(
    path: tuple[Key, ...], findings: Sequence[_Finding], data: Any, depth: int
) -> Iterator[Complaint]:
    """One sensible account of a value that fits no branch: that of the branch whose form was written."""
    union = findings[0].forks[depth].union
    value = _value_at(path, data)[0]
    kind = kind_of(value)
    branches: dict[str, list[_Finding]] = {}
    for finding in findings:
        branches.setdefault(finding.forks[depth].label, []).append(finding)
    choices = union.choices()
    meant = {label: group for label, group in branches.items() if kind in choices[label].kinds}
    if meant and kind in (LIST, MAPPING):
        yield from _settled(min(meant.values(), key=_distance), data, depth + 1)
        return
    precise = [group for group in meant.values() if not is_about_form(group[0].details)]
    if precise and not near_option(value, union.options):
        yield from _settled(precise[0], data, depth + 1)
        return
    yield Complaint(_value_at(path, data)[1], wrong_form(value, union))


def _distance(findings: Sequence[_Finding]) -> tuple[int, int]:
    """How far a branch is from what was written; a wrong ``kind: ...`` says that another was meant."""
    return sum(finding.details["type"] == "literal_error" for finding in findings), len(findings)


def _complaints(finding: _Finding, data: Any) -> Iterator[Complaint]:
    kind = finding.details["type"]
    written = _value_at(finding.path, data)[1]
    if kind in ("extra_forbidden", "invalid_key"):
        yield unknown_key(finding.path, finding.section)
    elif kind == "missing":
        yield missing_key(finding.path, finding.section)
    elif kind == "union_tag_not_found" and finding.shape:
        name = finding.shape.discriminator
        yield Complaint((*finding.path, name), f"'{name}' is missing; write {finding.shape.tags}")
    elif kind == "union_tag_invalid" and finding.shape:
        message = not_one_of(finding.details["ctx"]["tag"], finding.shape.choices(), finding.shape.tags)
        yield Complaint((*finding.path, finding.shape.discriminator), message)
    elif refused := refusal_problems(finding.details):
        for path, message in refused:
            inside = keys_of(_value_at(written, data)[0], path)
            yield Complaint(_value_at((*written, *inside), data)[1], message)
    else:
        yield Complaint(written, error_sentence(finding.details, finding.path, finding.shape), finding.at_key)


def _value_at(path: tuple[Key, ...], data: Any) -> tuple[Any, tuple[Key, ...]]:
    """The value on a path, and the part of the path that is really written."""
    written: tuple[Key, ...] = ()
    for key in path:
        if not _holds(data, key):
            break
        data = data[key]
        written = (*written, key)
    return data, written


def _holds(data: Any, key: Key) -> bool:
    if isinstance(data, Mapping):
        return key in data
    return isinstance(data, (list, tuple)) and isinstance(key, int) and 0 <= key < len(data)


def _order(path: tuple[Key, ...], data: Any) -> tuple[int, ...]:
    """The position of a path in the document: of its keys, one after the other."""
    order: list[int] = []
    for key in path:
        if not _holds(data, key):
            break
        order.append(list(data).index(key) if isinstance(data, Mapping) else int(str(key)))
        data = data[key]
    return tuple(order)
