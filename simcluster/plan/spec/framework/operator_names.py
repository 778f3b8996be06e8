"""The names of operators and of operator families that a framework profile gives: whether there are such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.errors import nearest

_SWITCHES = (
    *((key,) for key in ("fuse", "passes", "accumulate", "calls", "host_waits", "traffic")),
    *(("storage", key) for key in ("in_place", "scratch", "whole", "placeholders", "operand_buffers")),
)
"""The switches that name operators or families of them, by their keys."""


def refuse_unknown_operators(profile: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
    """Refused if a switch of the profile names an operator or family that there is not.

    What ``entry`` says, the catalog's entry that the profile starts from, is not looked up again, since
    loading all operators takes a second.
    """
    unusual = {
        path: sorted(set(_names(_at(profile, path))) - set(_names(_at(entry, path)))) for path in _SWITCHES
    }
    if any(unusual.values()):
        _check(unusual)


def _at(section: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What a section has under these keys, from the outer to the inner; nothing if it has not."""
    value: Any = section
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return () if value is None else value


def _names(value: Any) -> list[str]:
    """The names in a switch: in lists, in pairs, or as keys."""
    if isinstance(value, str):
        return [value] if value != "all" else []
    return [name for part in value for name in _names(part)]


_EXCHANGED_TOKENS = (("host_waits",), "expert_exchange")
"""What the host may wait for that is no operator: tokens that ranks exchange before the experts run."""


def _check(names: Mapping[tuple[str, ...], list[str]]) -> None:
    """Refused if one of the names, by keys, is neither an operator's nor a family's."""
    from simcluster.model import operator_kinds

    plain = {name for kind in operator_kinds().values() for name in (kind.kind, kind.family)}
    # Functions may multiply a router's weights in their kernel, and are called so, too.
    known = plain | {f"weighed_{name}" for name in plain}
    for path, written in names.items():
        for name in written:
            if name not in known and (path, name) != _EXCHANGED_TOKENS:
                raise Refused(
                    f"no operator and no family of operators is called '{name}'",
                    path=".".join(path),
                    hint=nearest(name, sorted(plain)),
                )
