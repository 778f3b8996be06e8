"""Dataclasses whose methods are compiled when they are first looked up.

The standard library writes and compiles up to six methods for each class where it is defined: a third of a
millisecond, and a run has six hundred of them on its way of which it uses a quarter. Here a definition finds
the fields, and ``__init__``, ``__eq__``, ``__hash__`` and what else was asked for follow when first needed.
To type checkers, ``fields``, ``replace`` and whoever calls it such a class is the library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, cast

ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
"""What ``order`` adds, and the comparison of each."""


class _DeferredMethod:
    """A method of ``owner`` that takes this object's place there when it is first looked up."""

    __slots__ = ("name", "owner", "write")

    def __init__(self, owner: type, name: str, write: Callable[[Any, str], Callable[..., Any]]) -> None:
        self.owner, self.name, self.write = owner, name, write

    def __get__(self, instance: object | None, owner: type | None = None) -> Callable[..., Any]:
        method = self.write(self.owner, self.name)
        method.__name__ = self.name
        method.__qualname__ = f"{self.owner.__qualname__}.{self.name}"
        method.__module__ = self.owner.__module__
        setattr(self.owner, self.name, method)
        bound: Callable[..., Any] = method.__get__(instance, owner)
        return bound


def _defined(
    cls: type, init: bool, repr: bool, eq: bool, order: bool, frozen: bool, kw_only: bool, slots: bool
) -> type:
    """The class with its fields found, and with methods for all that it has not written itself."""
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # or the library would compose a signature
    own = cls.__dict__
    asked = {
        "__init__": _init if init and frozen else _mutable_init if init else None,
        "__repr__": _repr if repr else None,
        "__eq__": _comparison if eq else None,
        "__hash__": _hash if eq and frozen and own.get("__hash__") is None else None,
        **(dict.fromkeys(ORDER, _comparison) if order else {}),
    }
    # A class with ``__eq__`` of its own has a ``__hash__`` of None from Python itself.
    methods = {name: write for name, write in asked.items() if write and own.get(name) is None}
    unhashable = eq and not frozen and "__hash__" not in own
    fields_only: Callable[[Any], Any] = dataclasses.dataclass(
        init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
    )
    made = fields_only(cls)
    for name, write in methods.items():
        setattr(made, name, _DeferredMethod(made, name, write))
    if unhashable:
        made.__hash__ = None
    if frozen:
        _freeze(made)
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return cast("type", made)


def _freeze(cls: Any) -> None:
    """Refuses new values of fields, and any attribute but those that a class derived from it adds."""
    names = frozenset(field.name for field in fields(cls))

    def refuse_assignment(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_deletion(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = refuse_assignment, refuse_deletion


def _state(self: Any) -> list[object]:
    """What a frozen object without a dictionary is pickled as."""
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _init(cls: Any, name: str, assignment: str = "_set(self, {0!r}, {1})") -> Callable[..., Any]:
    """``__init__`` of a frozen class."""
    given: dict[str, Any] = {"_set": object.__setattr__, "_absent": MISSING}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    every: tuple[Field[Any], ...] = fields(cls)
    for field in every:
        value, default = field.name, f"_default_{field.name}"
        if field.default_factory is not MISSING:
            given[default] = field.default_factory
            value = f"{default}() if {value} is _absent else {value}" if field.init else f"{default}()"
            shown = "=_absent"
        elif field.default is not MISSING:
            given[default] = field.default
            value = value if field.init else default
            shown = f"={default}"
        elif not field.init:
            continue
        else:
            shown = ""
        if field.init:
            parameters[bool(field.kw_only)].append(field.name + shown)
        lines.append(assignment.format(field.name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join(["self", *parameters[False], *named])
    method = _compiled(name, head, lines or ["pass"], given)
    method.__annotations__ = {field.name: field.type for field in every if field.init} | {"return": None}
    return method


def _mutable_init(cls: Any, name: str) -> Callable[..., Any]:
    """``__init__`` of a class that is not frozen."""
    return _init(cls, name, "self.{0} = {1}")


def _repr(cls: Any, name: str) -> Callable[..., Any]:
    names = [field.name for field in fields(cls) if field.repr]

    def shown(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return recursive_repr()(shown)


def _comparison(cls: Any, name: str) -> Callable[..., Any]:
    """``__eq__`` and the methods of ``order``: objects of one class compare as tuples of their fields."""
    operator = ORDER.get(name, "==")
    compared = f"{_compared(cls, 'self')} {operator} {_compared(cls, 'other')}"
    lines = ["if other.__class__ is self.__class__:", f" return {compared}", "return NotImplemented"]
    return _compiled(name, "self, other", lines)


def _hash(cls: Any, name: str) -> Callable[..., Any]:
    hashed = [field for field in fields(cls) if (field.compare if field.hash is None else field.hash)]
    return _compiled(name, "self", [f"return hash(({''.join(f'self.{field.name}, ' for field in hashed)}))"])


def _compared(cls: Any, holder: str) -> str:
    """A tuple of the compared fields of an object, as Python writes it."""
    return f"({''.join(f'{holder}.{field.name}, ' for field in fields(cls) if field.compare)})"


def _compiled(
    name: str, parameters: str, lines: list[str], given: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """A function with these lines, which read ``given`` as global names."""
    space = dict(given or {})
    exec(f"def {name}({parameters}):\n" + "\n".join(f" {line}" for line in lines), space)
    method: Callable[..., Any] = space[name]
    return method


def _dataclass(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
) -> type | Callable[[type], type]:
    """As the library's ``dataclass`` with these arguments; its methods are compiled when first used."""

    def defined(cls: type) -> type:
        return _defined(cls, init, repr, eq, order, frozen, kw_only, slots)

    return defined if cls is None else defined(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
