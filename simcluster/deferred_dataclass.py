"""Dataclasses whose methods are written when they are first looked up.

The standard library writes and compiles up to six methods for each class where it is defined: a third of a
millisecond, and a run has six hundred classes on its way, of which it uses a quarter. Here a definition only
finds the fields and refuses assignment; the library writes ``__init__``, ``__eq__`` and the others once
somebody asks for them. To type checkers, ``fields``, ``replace`` and whoever uses it or derives from it, such
a class is the library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_NOTHING = {"init": False, "repr": False, "eq": False, "match_args": False}


class _DeferredMethod:
    """A method of ``owner``, of which it takes this object's place when it is first looked up."""

    __slots__ = ("name", "options", "owner")

    def __init__(self, owner: type, name: str, options: dict[str, bool]) -> None:
        self.owner, self.name, self.options = owner, name, options

    def __get__(self, instance: object | None, owner: type | None = None) -> Callable[..., Any]:
        method = _written(self.owner, self.name, self.options)
        setattr(self.owner, self.name, method)
        bound: Callable[..., Any] = method.__get__(instance, owner)
        return bound


def _written(owner: Any, name: str, options: dict[str, bool]) -> Callable[..., Any]:
    """What the library writes, with these options, for a class that has the fields of ``owner``."""
    own = {field.name: field for field in fields(owner)}
    namespace: dict[str, Any] = {
        **own,
        "__annotations__": {field: own[field].type for field in own},
        "__doc__": owner.__doc__,
        "__module__": owner.__module__,
        "__qualname__": owner.__qualname__,
    }
    if hasattr(owner, "__post_init__"):
        namespace["__post_init__"] = owner.__post_init__
    define: Callable[[Any], Any] = dataclasses.dataclass(**(_NOTHING | options))
    method: Callable[..., Any] = vars(define(type(owner.__name__, (), namespace)))[name]
    return method


def _defined(
    cls: type, init: bool, repr: bool, eq: bool, order: bool, frozen: bool, kw_only: bool, slots: bool
) -> type:
    """The class with its fields found, and with methods for all that it has not written itself."""
    own = cls.__dict__
    asked = {
        **({"__init__": {"init": True, "frozen": frozen, "slots": slots}} if init else {}),
        **({"__repr__": {"repr": True}} if repr else {}),
        **({"__eq__": {"eq": True}} if eq else {}),
        **({"__hash__": {"unsafe_hash": True}} if eq and frozen else {}),
        **{name: {"eq": True, "order": True} for name in _ORDER if order},
    }
    # A class with ``__eq__`` of its own has a ``__hash__`` of None from Python itself.
    methods = {name: options for name, options in asked.items() if own.get(name) is None}
    unhashable = eq and not frozen and "__hash__" not in own
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # or the library would compose a signature
    define: Callable[[Any], Any] = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=frozen, kw_only=kw_only, slots=slots
    )
    made = define(cls)
    for name, options in methods.items():
        setattr(made, name, _DeferredMethod(made, name, options))
    if unhashable:
        made.__hash__ = None
    return cast("type", made)


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
    """As the library's ``dataclass`` with these arguments; its methods are written when first used."""

    def defined(cls: type) -> type:
        return _defined(cls, init, repr, eq, order, frozen, kw_only, slots)

    return defined if cls is None else defined(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
