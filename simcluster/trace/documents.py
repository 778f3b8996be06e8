"""The documents of a run by name; some are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Making = Callable[[], Any]


class Documents(Mapping[str, Any]):
    """Documents ``known``, and others that ``later`` has functions for, each called once at most.

    Copies that other processes get, and files, hold all of them.
    """

    def __init__(self, known: Mapping[str, Any], later: Mapping[str, Making]) -> None:
        self._known = dict(known)
        self._later = dict(later)

    def __getitem__(self, name: str) -> Any:
        if name in self._later:
            self._known[name] = self._later.pop(name)()
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._later

    def __iter__(self) -> Iterator[str]:
        return iter((*self._known, *self._later))

    def __len__(self) -> int:
        return len(self._known) + len(self._later)

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)
