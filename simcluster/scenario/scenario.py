"""A scenario: a validated document that can be turned into the things it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from simcluster.cluster import Cluster
from simcluster.document import Document, validate, validate_data
from simcluster.errors import SimclusterError
from simcluster.model import Model
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario.spec import ScenarioSpec

Located = TypeVar("Located", bound=SimclusterError)


@dataclass(frozen=True)
class Scenario:
    """What a user wrote, validated; ``document`` is None if it was given as plain data.

    ``folder`` is where relative paths in the scenario start.
    """

    spec: ScenarioSpec
    document: Document | None
    folder: Path

    @classmethod
    def load(cls, path: str | Path, changes: Iterable[tuple[str, str]] = ()) -> Scenario:
        """Reads a scenario file; ``changes`` are (key path, YAML text) pairs that replace what it says.

        Raises ScenarioError with every problem of the file, each with ``file:line:column``.
        """
        document = Document.read(path)
        for key, text in changes:
            document = document.with_value(key, text)
        return cls(validate(document, ScenarioSpec), document, Path(path).parent)

    @classmethod
    def of(cls, data: Mapping[str, Any], folder: str | Path = ".") -> Scenario:
        """A scenario from plain data, as a YAML file would hold it."""
        return cls(validate_data(data, ScenarioSpec), None, Path(folder))

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.spec.name

    @cached_property
    def cluster(self) -> Cluster:
        """The hardware."""
        return self.spec.cluster.build(self.spec.run.seed)

    @cached_property
    def model(self) -> Model:
        """What is trained."""
        return self.spec.model.build(self.folder)

    @cached_property
    def framework(self) -> FrameworkSpec:
        """The framework profile."""
        return FrameworkSpec.load(self.spec.framework)

    def located(self, error: Located) -> Located:
        """The error with key paths as ``file:line:column``, if the scenario came from a file."""
        return self.document.located(error) if self.document is not None else error
