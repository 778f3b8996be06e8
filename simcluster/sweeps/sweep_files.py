"""Where the rows of a sweep go, and where they are kept while it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from simcluster._version import __version__
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import Scenario
from simcluster.sweeps.result import SweepResult
from simcluster.sweeps.variation import SweepSpace
from simcluster.trace import atomic_path
from simcluster.workers import Journal

CSV, PARQUET = ".csv", ".parquet"


@dataclass(frozen=True, slots=True)
class SweepFile:
    """The file of ``--out``: comma-separated values or Parquet, by its ending."""

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> SweepFile:
        """The file at a path; ScenarioError for another ending, or for Parquet without polars."""
        where = f"--out {path}"
        suffix = Path(path).suffix.lower()
        if suffix not in (CSV, PARQUET):
            raise ScenarioError(
                Problem(f"a sweep is written as {CSV} or {PARQUET}", where=where, hint="name it so")
            )
        if suffix == PARQUET and find_spec("polars") is None:
            raise ScenarioError(
                Problem(
                    "writing Parquet needs the extra notebook",
                    where=where,
                    hint="pip install 'simcluster[notebook]', or pip install '.[notebook]' in a checkout; "
                    f"or write {CSV}",
                    extra="notebook",
                )
            )
        return cls(Path(path))

    @property
    def journal(self) -> Path:
        """The file beside it that has the rows while the sweep runs."""
        return self.path.with_name(f"{self.path.name}.journal")

    def write(self, result: SweepResult) -> None:
        """Writes the rows, complete or not at all. Raises OSError as writing does."""
        with atomic_path(self.path) as partial:
            if self.path.suffix.lower() == PARQUET:
                result.frame().write_parquet(partial)
            else:
                partial.write_text(result.to_csv(), encoding="utf-8")


def open_journal(file: SweepFile, scenario: Scenario, space: SweepSpace, *, restart: bool = False) -> Journal:
    """The journal of a sweep, with the rows that an interrupted one left there.

    Raises ScenarioError if they are of another scenario, other variations or another version of simcluster,
    unless all is to begin anew, and if another process is writing them.
    """
    work = {
        "version of simcluster": __version__,
        "scenario": _fingerprint(scenario),
        "variation": [[variation.key, list(variation.texts)] for variation in space.variations],
    }
    return Journal(file.journal, work, restart=restart)


def _fingerprint(scenario: Scenario) -> str:
    """A digest of what a scenario says, and of the files that it names."""
    document = scenario.document
    data = scenario.spec.model_dump(mode="json", exclude_unset=True) if document is None else document.data
    digest = hashlib.sha256(json.dumps(data, default=str).encode())
    for path in _named_files(scenario):
        digest.update(path.read_bytes() if path.is_file() else b"there is none")
    return digest.hexdigest()


def _named_files(scenario: Scenario) -> Iterator[Path]:
    model = scenario.spec.model
    names = [model.hf, model.onnx, *(tenant.scenario for tenant in scenario.spec.tenants)]
    yield from (scenario.folder / name for name in names if isinstance(name, (str, Path)))
