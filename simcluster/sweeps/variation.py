"""What a sweep varies: values for keys of a scenario, and all their combinations."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import inline_data, resolve
from simcluster.errors import Problem, ScenarioError

MOST_POINTS = 100_000
"""The largest sweep."""

_PLAIN = re.compile(r"[\w./+-]+(?: [\w./+-]+)*")


@dataclass(frozen=True)
class Variation:
    """A key of the scenario, and the values that it takes one after another, as plain data."""

    key: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, setting: str) -> Variation:
        """The variation of ``KEY=V1,V2``; values are YAML, as those of ``--set``.

        Raises ScenarioError for text of another form, and for no values.
        """
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(
                f"--vary {setting}: expected KEY=VALUE,VALUE, such as parallel.mesh.tensor=1,2,4"
            )
        return cls._checked(key.strip(), inline_data(f"--vary {setting}", f"[{text}]"))

    @classmethod
    def of(cls, key: str, values: Iterable[object]) -> Variation:
        """The variation with values from Python, in which text is read as YAML: ``"8"`` and ``8`` are equal.

        Raises ScenarioError as ``parse`` does.
        """
        if isinstance(values, (str, Mapping)):
            raise ScenarioError(
                Problem("expected a list of values, even of one", where=f"--vary {key}={values}")
            )
        return cls._checked(key, [_plain_data(key, value) for value in values])

    @classmethod
    def _checked(cls, key: str, values: list[Any]) -> Variation:
        variation = cls(key, tuple(values))
        if not values:
            raise ScenarioError(
                Problem("no values", where=f"--vary {key}=", hint=f"write some: --vary {key}=VALUE,VALUE")
            )
        for number, text in enumerate(variation.texts):
            if text in variation.texts[:number]:
                raise ScenarioError(
                    Problem("this value is there twice", where=f"--vary {key}={text}", hint="give it once")
                )
        return variation

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as YAML, each on one line."""
        return tuple(map(_yaml_text, self.values))

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as people read them."""
        return tuple(
            value if isinstance(value, str) else text
            for value, text in zip(self.values, self.texts, strict=True)
        )

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.values)


@dataclass(frozen=True)
class SweepSpace:
    """Every combination of the values of some variations; the last one varies fastest.

    Combinations are counted from 0.
    """

    variations: tuple[Variation, ...]

    @classmethod
    def of(cls, variations: Iterable[Variation]) -> SweepSpace:
        """The space of some variations.

        Raises ScenarioError if there is none, if a key stands in two, if one would undo another, or if there
        are too many combinations.
        """
        space = cls(tuple(variations))
        if not space.variations:
            raise ScenarioError(
                "a sweep varies at least one key: --vary KEY=VALUE,VALUE, such as training.micro_batch=1,2,4"
            )
        keys = [variation.key for variation in space.variations]
        problems = []
        for number, key in enumerate(keys):
            if key in keys[:number]:
                problems.append(
                    Problem("this key varies already", where=f"--vary {key}", hint="name it once")
                )
            problems += (
                Problem(
                    f"this replaces the whole of '{key}', and with it '{inner}' that varies before",
                    where=f"--vary {key}",
                    hint="give this one first",
                )
                for inner in keys[:number]
                if inner.startswith(f"{key}.")
            )
        if space.num_points > MOST_POINTS:
            sizes = " x ".join(str(len(variation.values)) for variation in space.variations)
            problems.append(
                Problem(f"{sizes} = {space.num_points:,} points; a sweep has at most {MOST_POINTS:,}")
            )
        if problems:
            raise ScenarioError(*problems)
        return space

    @property
    def num_points(self) -> int:
        """How many combinations there are."""
        return math.prod(len(variation.values) for variation in self.variations)

    def choices(self, point: int) -> tuple[int, ...]:
        """Which value of each variation a combination has."""
        places = []
        for variation in reversed(self.variations):
            point, place = divmod(point, len(variation.values))
            places.append(place)
        return tuple(reversed(places))

    def changes(self, point: int) -> tuple[tuple[str, str], ...]:
        """The (key path, YAML text) pairs of a combination."""
        return tuple(
            (variation.key, variation.texts[place])
            for variation, place in zip(self.variations, self.choices(point), strict=True)
        )

    def values(self, point: int) -> dict[str, Any]:
        """Key -> value of a combination."""
        return {
            variation.key: variation.values[place]
            for variation, place in zip(self.variations, self.choices(point), strict=True)
        }

    def points_with(self, number: int, place: int) -> Iterator[int]:
        """The combinations in which a variation has one of its values, in order."""
        inner = math.prod(len(variation.values) for variation in self.variations[number + 1 :])
        size = len(self.variations[number].values)
        for begin in range(place * inner, self.num_points, size * inner):
            yield from range(begin, begin + inner)


def _plain_data(key: str, value: object) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=_of_array)
    return inline_data(f"--vary {key}={text}", text)


def _of_array(value: object) -> object:
    """A number of NumPy as one of Python; anything else as text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def _yaml_text(value: Any) -> str:
    """A value as YAML on one line: text without quotes where it reads as itself, else JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and resolve(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
