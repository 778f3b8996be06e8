"""Deferred dataclasses against those of the library: the same class, defined twice."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace
from itertools import product
from typing import ClassVar

import pytest

from simcluster.deferred_dataclass import dataclass


class _Written:
    a: int
    b: tuple[int, ...] = ()
    c: dict[str, int] = field(default_factory=dict, compare=False)
    d: float = field(default=2.5, repr=False)
    e: list[int] = field(default_factory=list, init=False, hash=False)

    def __post_init__(self):
        """Where the class is not frozen, a field may follow from others."""
        self.c["made"] = self.a


OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "order": eq and order, "kw_only": kw_only}
    for frozen, slots, eq, order, kw_only in product((False, True), repeat=5)
    if eq or not order
]


def _both(options):
    """The class as we define it, and as the library does."""
    return tuple(
        define(**options)(type("Written", (), dict(_own()))) for define in (dataclass, dataclasses.dataclass)
    )


def _own():
    return {name: copy.copy(value) for name, value in _plain(_Written).items()}


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(k for k, v in options.items() if v))
def test_a_deferred_class_does_what_the_librarys_does(options):
    ours, theirs = _both(options)
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    one, two, same = ours(a=1), ours(a=2, b=(3,), d=1.0), ours(a=1, c={"x": 1})
    alike = theirs(a=1), theirs(a=2, b=(3,), d=1.0), theirs(a=1, c={"x": 1})
    for mine, library in zip((one, two, same), alike, strict=True):
        assert repr(mine) == repr(library)
        assert repr(replace(mine, a=5)) == repr(replace(library, a=5))
    assert [one == two, one == same, one == alike[0]] == [
        alike[0] == alike[1],
        alike[0] == alike[2],
        False,
    ]
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if ours.__hash__ is not None and options["eq"]:
        assert (hash(one) == hash(same), hash(one)) == (True, hash(alike[0]))
    if options["order"]:
        assert one < two
        assert one <= same
        assert not one > two
    with pytest.raises(TypeError):
        ours()
    if options["frozen"]:
        for change in (lambda: setattr(one, "a", 3), lambda: delattr(one, "b"), lambda: setattr(one, "z", 3)):
            with pytest.raises((FrozenInstanceError, TypeError)):
                change()
    else:
        one.a = 7
        assert one.a == 7


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = ""

    def __repr__(self):
        return self.name


def test_what_a_class_writes_itself_stays():
    assert Point(1, 2) == Point(1, 3)
    assert repr(Named(1, 2, "here")) == "here"
    assert Named(1, name="here") == Named(1, name="here") != Named(1)
    assert hash(Named(1, 2, "a")) == hash((1, 2, "a"))


def test_frozen_classes_with_slots_are_pickled_and_copied():
    for value in (Point(1, 2), Named(1, 2, "here")):
        assert vars(type(pickle.loads(pickle.dumps(value))))["__slots__"] == vars(type(value))["__slots__"]
        assert dataclasses.astuple(copy.deepcopy(value)) == dataclasses.astuple(value)
        assert dataclasses.asdict(pickle.loads(pickle.dumps(value))) == dataclasses.asdict(value)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("define", [dataclass, dataclasses.dataclass])
def test_fields_of_bases_come_first_and_those_of_classes_are_none(define, slots):
    class Base:
        x: int
        y: int = 1
        about: ClassVar[str] = "base"

    class Derived:
        y: int = 2
        z: int = field(default=3, init=False)

    base = define(frozen=True, slots=slots)(Base)
    derived = define(frozen=True, slots=slots)(type("Derived", (base,), dict(_plain(Derived))))
    made = derived(5)
    assert [f.name for f in fields(derived)] == ["x", "y", "z"]
    assert (made.x, made.y, made.z, made.about) == (5, 2, 3, "base")
    assert (derived.__match_args__, hasattr(made, "__dict__")) == (("x", "y"), not slots)
    assert inspect.signature(derived).parameters["y"].default == 2


def test_what_derives_from_a_frozen_class_may_keep_more():
    class Further(Named):
        """Not a dataclass itself."""

    further = Further(5)
    further.note = "kept"
    assert further.note == "kept"
    for change in (lambda: setattr(further, "x", 1), lambda: delattr(further, "name")):
        with pytest.raises(FrozenInstanceError):
            change()
    del further.note
    assert not hasattr(further, "note")


def _plain(cls):
    return {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
