"""Dataclasses whose methods are written when they are first looked up.

The standard library writes and compiles up to eight methods for each class where it is defined: a third of a
millisecond, and a run has six hundred classes on its way, of which it uses a quarter. Here a definition only
finds the fields; ``__init__`` is written once somebody asks for it, comparing and hashing need no code of
their own, and the library writes the others. To type checkers, ``fields``, ``replace`` and whoever uses it or
derives from it, such a class is the library's. What the library checks of definitions, type checkers do here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_origin

_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_NOTHING = {"init": False, "repr": False, "eq": False, "match_args": False}


class _Example:
    of_class: ClassVar[int]
    of_object: int


_made: dict[bool, Any] = {
    frozen: dataclasses.dataclass(**_NOTHING, frozen=frozen)(type("Example", (), dict(vars(_Example))))
    for frozen in (False, True)
}
"""What the library notes in a class, to note the same."""
_IN_CLASS, _IN_OBJECT = (field._field_type for field in _made[False].__dataclass_fields__.values())


class _DeferredMethod:
    """A method of ``owner``, of which it takes this object's place when it is first looked up."""

    __slots__ = ("name", "options", "owner")

    def __init__(self, owner: type, name: str, options: dict[str, bool]) -> None:
        self.owner, self.name, self.options = owner, name, options

    def __get__(self, instance: object | None, owner: type | None = None) -> Callable[..., Any]:
        write = _WRITERS.get(self.name)
        method = write(self.owner) if write else _written(self.owner, self.name, self.options)
        method.__qualname__ = f"{self.owner.__qualname__}.{self.name}"
        method.__module__ = self.owner.__module__
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
    define: Callable[[Any], Any] = dataclasses.dataclass(**(_NOTHING | options))
    method: Callable[..., Any] = vars(define(type(owner.__name__, (), namespace)))[name]
    return method


def _init(owner: Any) -> Callable[..., Any]:
    """``__init__``: fields without a default must be given, factories are called for each object."""
    frozen = owner.__dataclass_params__.frozen
    known: dict[str, Any] = {"_MISSING": MISSING, "_set": object.__setattr__}
    given: dict[bool, list[str]] = {False: [], True: []}
    body = []
    for field in fields(owner):
        name = field.name
        known["_of_" + name] = field.default if field.default_factory is MISSING else field.default_factory
        has_default, value = field.default is not MISSING, name
        if field.default_factory is not MISSING:
            value = f"_of_{name}() if {name} is _MISSING else {name}" if field.init else f"_of_{name}()"
        elif not field.init:
            if not has_default or "__slots__" not in vars(owner):
                continue  # whoever asks finds the default in the class
            value = "_of_" + name
        if field.init:
            otherwise = "=_MISSING" if value != name else f"=_of_{name}" if has_default else ""
            given[bool(field.kw_only)].append(name + otherwise)
        body.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ["self", *given[False], *(["*"] if given[True] else []), *given[True]]
    text = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass")
    exec(text, known)  # of names of fields alone, as the library does
    method: Callable[..., Any] = known["__init__"]
    method.__annotations__ = {field.name: field.type for field in fields(owner) if field.init}
    method.__annotations__["return"] = None
    return method


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives these attributes of an object."""
    if not names:
        return lambda value: ()
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda value: (values(value),)


def _eq(owner: Any) -> Callable[..., Any]:
    values = _values([field.name for field in fields(owner) if field.compare])

    def equals(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(owner: Any) -> Callable[..., Any]:
    values = _values(
        [field.name for field in fields(owner) if (field.compare if field.hash is None else field.hash)]
    )
    return lambda self: hash(values(self))


_WRITERS = {"__init__": _init, "__eq__": _eq, "__hash__": _hash}


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    """``__setattr__`` of frozen classes: what derives from one may have attributes beside the fields."""
    if name in self.__dataclass_fields__ or "__dataclass_fields__" in vars(type(self)):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    """``__delattr__`` of frozen classes."""
    if name in self.__dataclass_fields__ or "__dataclass_fields__" in vars(type(self)):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[Any]:
    """``__getstate__`` of frozen classes with slots, which Python could not restore itself."""
    return [getattr(self, field.name) for field in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    """``__setstate__`` of them."""
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _find_fields(cls: type, kw_only: bool) -> dict[str, Field[Any]]:
    """All fields by name, those of bases first; in the class are their defaults from then on."""
    by_name: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        by_name |= getattr(base, "__dataclass_fields__", {})
    for name, kind in vars(cls).get("__annotations__", {}).items():
        value = getattr(cls, name, MISSING)
        if isinstance(value, Field):
            field = value
            if field.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, field.default)
        else:  # what a base has there is a slot, and no default
            default = MISSING if isinstance(value, MemberDescriptorType) else value
            field = cast("Field[Any]", dataclasses.field(default=default))
        field.name, field.type = name, kind
        text = kind if isinstance(kind, str) else ""
        in_class = text.startswith(("ClassVar", "typing.ClassVar")) or get_origin(kind) is ClassVar
        field._field_type = _IN_CLASS if in_class else _IN_OBJECT  # type: ignore[attr-defined]
        if field.kw_only is MISSING and not in_class:
            field.kw_only = kw_only
        by_name[name] = field
    return by_name


def _with_slots(cls: type, names: Sequence[str]) -> type:
    """The class made again, with slots for these attributes that no base has yet."""
    namespace = {name: value for name, value in vars(cls).items() if name not in names}
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    namespace["__slots__"] = tuple(name for name in names if name not in inherited)
    made: type = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _defined(
    cls: Any, init: bool, repr: bool, eq: bool, order: bool, frozen: bool, kw_only: bool, slots: bool
) -> type:
    """The class with its fields found, and with methods for all that it has not written itself."""
    own = vars(cls)
    asked = {
        **({"__init__": {"init": True}} if init else {}),
        **({"__repr__": {"repr": True}} if repr else {}),
        **({"__eq__": {"eq": True}} if eq else {}),
        **({"__hash__": {"unsafe_hash": True}} if eq and frozen else {}),
        **{name: {"eq": True, "order": True} for name in _ORDER if order},
    }
    # A class with ``__eq__`` of its own has a ``__hash__`` of None from Python itself.
    methods = {name: options for name, options in asked.items() if own.get(name) is None}
    unhashable = eq and not frozen and "__hash__" not in own
    cls.__dataclass_params__ = _made[frozen].__dataclass_params__
    cls.__dataclass_fields__ = _find_fields(cls, kw_only)
    cls.__doc__ = cls.__doc__ or cls.__name__
    of_objects = fields(cls)
    if "__match_args__" not in own:
        named = tuple(field.name for field in of_objects if field.init and not field.kw_only)
        cls.__match_args__ = named  # type: ignore[misc]
    if slots:
        cls = _with_slots(cls, [field.name for field in of_objects])
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
    if frozen and slots:
        cls.__getstate__, cls.__setstate__ = _state, _restore
    for name, options in methods.items():
        setattr(cls, name, _DeferredMethod(cls, name, options))
    if unhashable:
        cls.__hash__ = None
    return cast("type", cls)


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
