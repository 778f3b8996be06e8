"""A scenario: a validated document that can be turned into the things it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from simcluster import units
from simcluster.cluster import Cluster, ClusterSpec, parse_index_list
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Document, Refused, validate, validate_data
from simcluster.draw import Column, html_table
from simcluster.errors import Problem, ScenarioError, SimclusterError
from simcluster.model import Model
from simcluster.plan import FrameworkSpec
from simcluster.printable import printable_text
from simcluster.scenario.aliases import other_tool_names
from simcluster.scenario.entry_files import with_entry_files, with_entry_files_in
from simcluster.scenario.spec import ScenarioSpec
from simcluster.scenario.tenant import TenantFileSpec, TenantSpec, TenantWorkloadSpec

Located = TypeVar("Located", bound=SimclusterError)


@dataclass(frozen=True, repr=False)
class Scenario:
    """A scenario: what a user wrote, validated; ``document`` is None if it was given as plain data.

    ``folder`` is where relative paths in the scenario start. A tenant has a ``place``, the hosts it was
    given; one that is written out in the document of another scenario stands there ``under`` a key path.
    ``remark`` says what of a file does not hold for a tenant.
    """

    spec: ScenarioSpec
    document: Document | None
    folder: Path
    place: Cluster | None = None
    under: str = ""
    remark: str = ""

    @classmethod
    def load(cls, path: str | Path, changes: Iterable[tuple[str, str]] = ()) -> Scenario:
        """Reads a scenario file; ``changes`` are (key path, YAML text) pairs that replace what it says.

        Raises ScenarioError with every problem of the file, each with ``file:line:column``.
        """
        folder = Path(path).parent
        document = _with_values(Document.read(path), folder, changes)
        return cls(validate(document, ScenarioSpec, folder=folder), document, folder)

    @classmethod
    def of(cls, data: Mapping[str, Any], folder: str | Path = ".") -> Scenario:
        """A scenario from plain data, as a YAML file would hold it."""
        read = other_tool_names().read_data(with_entry_files_in(data, Path(folder)))
        return cls(validate_data(read, ScenarioSpec, folder=Path(folder)), None, Path(folder))

    def changed(self, changes: Iterable[tuple[str, str]], option: str = "--set") -> Scenario:
        """The scenario with (key path, YAML text) pairs that replace what it says.

        Errors name what was changed with ``option``, by which the user gave it.

        Raises ScenarioError for what cannot be read or does not go together.
        """
        document = self.document
        if document is None:
            # In another process figures have lost the type of their value, of which pydantic would warn.
            data = self.spec.model_dump(mode="json", exclude_unset=True, warnings=False)
            document = Document.parse(json.dumps(data), self.name)
        document = _with_values(document, self.folder, changes, option)
        return Scenario(validate(document, ScenarioSpec, folder=self.folder), document, self.folder)

    def __repr__(self) -> str:
        return "\n".join(["Scenario:", *(f"  {label:9}  {text}" for label, text in self._rows())])

    def _repr_html_(self) -> str:
        written = "" if self.document is None else self.document.source.text
        source = f"<details><summary>as written</summary><pre>{escape(written)}</pre></details>"
        return html_table(["", Column(wraps=True)], self._rows()) + (source if written else "")

    def _rows(self) -> Iterator[tuple[str, str]]:
        """(label, text) of what a reader asks first."""
        spec, task = self.spec, self.spec.task
        yield "name", printable_text(self.name)
        yield "model", f"{spec.model.called}, {units.count(self.model.num_parameters)} parameters"
        yield "cluster", str(self.cluster)
        yield "framework", spec.framework.name
        what = "training" if spec.training is not None else "inference"
        batch = f"{task.global_batch:,} samples of {task.seq_len:,} tokens"
        yield what, batch if spec.training is None else f"{batch}, {task.micro_batch} in a micro-batch"
        yield "mesh", " x ".join(f"{axis} {size}" for axis, size in spec.parallel.sizes.items())
        if spec.tenants:
            yield "tenants", f"{len(spec.tenants)} other scenarios on the same cluster"
        if spec.job is not None:
            yield "job", "a run over days"

    @property
    def name(self) -> str:
        """The name that reports show."""
        return self.spec.name

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster it runs on; with tenants, only its own hosts of it."""
        return self.place or (
            self._whole if self.spec.own_hosts is None else self._whole.on(self.spec.own_hosts)
        )

    @cached_property
    def _whole(self) -> Cluster:
        return self.spec.cluster.build(self.spec.run.seed)

    @cached_property
    def tenants(self) -> tuple[Scenario, ...]:
        """The tenants as scenarios of their own, each on its hosts of the same cluster.

        Raises ScenarioError with the problems of all their files, and if two have one name.
        """
        tenants: list[Scenario] = []
        problems: list[Problem] = []
        for index, spec in enumerate(self.spec.tenants):
            try:
                tenants.append(self._tenant(spec, f"tenants.{index}"))
            except ScenarioError as error:
                problems += self.located(error).problems
                continue
            if tenants[-1].name in (self.name, *(other.name for other in tenants[:-1])):
                twice = f"there is another '{tenants[-1].name}'"
                key = f"tenants.{index}.{'scenario' if spec.name is None else 'name'}"
                problem = Problem(twice, key, "give this one a name of its own: name: ...")
                problems += self.located(ScenarioError(problem)).problems
        if problems:
            raise ScenarioError(*problems)
        return tuple(tenants)

    def _tenant(self, tenant: TenantSpec, key: str) -> Scenario:
        hosts = parse_index_list(tenant.hosts)
        workload, document, folder, under = tenant.scenario, self.document, self.folder, f"{key}.scenario"
        name, cluster, remark = tenant.name, self.spec.cluster, ""
        if isinstance(workload, str):
            path = self.folder / workload
            try:
                document = _with_values(Document.read(path), path.parent, ())
            except ScenarioError as error:
                raise ScenarioError(
                    *(Problem(problem.message, under) for problem in error.problems)
                ) from None
            workload, folder, under = validate(document, TenantFileSpec, folder=path.parent), path.parent, ""
            name = name or workload.name
            if workload.cluster is not None and workload.cluster.num_devices != (
                wanted := len(hosts) * self._devices
            ):
                raise ScenarioError(
                    f"{len(hosts)} hosts x {self._devices} devices = {wanted}, "
                    f"but '{tenant.scenario}' is for {workload.cluster.num_devices} devices",
                    path=f"{key}.hosts",
                )
            if workload.cluster is not None and workload.cluster.hardware != cluster.hardware:
                ours, theirs = (_title(hardware) for hardware in (cluster, workload.cluster))
                remark = f"tenant '{name}' runs on {ours}, not on {theirs} as in its file"
            elif workload.cluster is not None and workload.cluster.changes:
                remark = f"tenant '{name}' runs without the cluster.changes of its file"
        assert isinstance(workload, TenantWorkloadSpec)
        own = cluster.model_copy(update={"hosts": len(hosts), "own_hosts": None, "changes": ()})
        try:
            parallel = workload.parallel.filled(len(hosts) * self._devices)
        except Refused as error:
            raise ScenarioError(
                *(Problem(problem.message, f"{key}.hosts") for problem in error.problems)
            ) from None
        parts = {part: getattr(workload, part) for part in _PARTS} | {"parallel": parallel}
        spec = ScenarioSpec(simcluster=1, name=name or key, cluster=own, **parts)
        return Scenario(spec, document, folder, self._whole.on(hosts), under, remark)

    @property
    def _devices(self) -> int:
        return self.spec.cluster.devices_per_host

    @cached_property
    def model(self) -> Model:
        """The model that is trained or answers."""
        return self.spec.model.build(self.folder)

    @cached_property
    def framework(self) -> FrameworkSpec:
        """The framework profile."""
        return self.spec.framework

    def located(self, error: Located) -> Located:
        """The error with key paths as ``file:line:column``, if the scenario came from a file."""
        if self.under:
            inside = (
                problem
                if problem.where
                else replace(problem, path=".".join(filter(None, (self.under, problem.path))))
                for problem in error.problems
            )
            error = type(error)(*inside)
        return self.document.located(error) if self.document is not None else error


_PARTS = ("framework", "model", "training", "parallel", "collectives", "run")
"""What a tenant brings along."""


def _title(cluster: ClusterSpec) -> str:
    host = cluster.hardware
    changed = "" if cluster.use else ", changed"
    return f"{host.use or host.title}{changed}"


def _with_values(
    document: Document, folder: Path, changes: Iterable[tuple[str, str]], option: str = "--set"
) -> Document:
    """A document under its own names, with (key path, YAML text) pairs that replace what it says.

    Files that it or they name in place of catalog entries are in it; their paths start in ``folder``.
    """
    document = other_tool_names().read(with_entry_files(document, folder))
    for key, text in changes:
        document = document.with_value(key, text, option)
    return other_tool_names().read(with_entry_files(document, folder))
