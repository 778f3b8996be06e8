"""The figures of a file of the catalog."""

from __future__ import annotations

from simcluster.document import Figure, Section


def figures(part, path=""):
    if isinstance(part, Figure):
        yield path, part
    elif isinstance(part, Section):
        for field in type(part).model_fields:
            yield from figures(getattr(part, field), f"{path}.{field}")
    elif isinstance(part, (dict, tuple)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from figures(inner, f"{path}.{key}")
