"""A scenario as text: what was read, with the changes of the command line in it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from simcluster.document import Document, keys_of, real_path
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario, has_entry_files

_WIDTH = 4096


def scenario_text(scenario: Scenario, changes: Sequence[tuple[str, str]]) -> str:
    """A text that reads as this scenario from any folder; without changes, the one that was read.

    ``changes`` are those the scenario was loaded with. Comments stay where the text can be edited in place.
    """
    document = scenario.document
    assert document is not None
    settings = list(changes)
    model = scenario.spec.model
    for key, file in (("model.hf", model.hf), ("model.onnx", model.onnx)):
        if file is not None and not file.is_absolute():
            settings.append((key, str(real_path(scenario.folder / file))))
    for index, tenant in enumerate(scenario.spec.tenants):
        if isinstance(tenant.scenario, str) and not Path(tenant.scenario).is_absolute():
            path = real_path(scenario.folder / tenant.scenario)
            settings.append((f"tenants.{index}.scenario", str(path)))
    if has_entry_files(document):
        return _dumped(document.data)  # what it names is in it
    if not settings:
        return document.source.text
    for key, text in settings[len(changes) :]:
        document = document.with_value(key, text)
    header = "".join(f"# with --set {key}={text}\n" for key, text in settings if "\n" not in text)
    edited = _edited(document, settings)
    return header + (edited if edited is not None else _dumped(document.data))


def _edited(document: Document, settings: Sequence[tuple[str, str]]) -> str | None:
    """The text with the changes put in; None where it would not read as the same data."""
    yaml = YAML(typ="rt")
    yaml.width = _WIDTH
    yaml.preserve_quotes = True
    try:
        data = yaml.load(document.source.text)
        for key, text in settings:
            _put(data, key, yaml.load(text))
        stream = io.StringIO()
        yaml.dump(data, stream)
        again = Document.parse(stream.getvalue(), document.name)
    except (YAMLError, ScenarioError, TypeError, KeyError, ValueError):
        return None
    return stream.getvalue() if again.data == document.data else None


def _put(data: Any, path: str, value: Any) -> None:
    *parents, last = keys_of(data, path)
    for key in parents:
        if isinstance(data, dict) and data.get(key) is None:
            data[key] = {}
        data = data[key]
    data[last] = value


def _dumped(data: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.width = _WIDTH
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
