"""What ``simcluster checkpoint transform`` did, and who needs which files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simcluster.cli.commands.checkpoint.checkpoint_text import rows_text
from simcluster.cli.output.progress import progress_line
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError
from simcluster.job import INDEX, SourceSlices
from simcluster.report import transform_rows
from simcluster.scenario import Scenario
from simcluster.simulation import source_slices_of, transform_checkpoint, transform_document


@dataclass(frozen=True)
class Transformed:
    """From where to where, and which slices ranks need."""

    source: str
    target: str
    slices: SourceSlices

    @classmethod
    def of(
        cls,
        source: str,
        to: str,
        out: Path | None,
        changes: Sequence[tuple[str, str]],
        *,
        merged: bool,
        predict: Path | None,
    ) -> Transformed:
        """Cuts the files of a small run, or counts what would be read under the plan of a scenario."""
        target = Scenario.load(to, changes)
        with progress_line(target.name, doing="planning"):
            if (Path(source) / INDEX).is_file():
                if predict is not None:
                    raise ScenarioError("the files of a small run are cut by the plan of --to alone")
                if out is None:
                    raise ScenarioError("the files of a small run are cut: name a folder with --out DIR")
                _, slices = transform_checkpoint(Path(source), target, out, merged=merged)
            elif out is not None or merged:
                raise ScenarioError(
                    f"{source} has no values to write",
                    hint="write a small checkpoint first: simcluster verify SCENARIO --save DIR",
                )
            else:
                by_file = Path(source).is_dir() or Path(source).suffix == ".json"
                slices = source_slices_of(Path(source) if by_file else Scenario.load(source), target, predict)
        return cls(source, target.name, slices)

    def text(self, ranks: Sequence[int], *, colour: bool = False) -> str:
        """The table, with the files that some ranks need."""
        rows = transform_rows(transform_document(self.slices), self.source)
        most = self.slices.target.mesh.num_ranks
        for rank in ranks:
            if not 0 <= rank < most:
                raise ScenarioError(f"--rank {rank}: the plan has ranks 0 to {most - 1}")
            listed = " ".join(map(str, self.slices.rank_list(rank)))
            rows.append((f"rank {rank} needs", listed))
        return rows_text(f"Checkpoint for {self.target}", rows, colour=colour)
