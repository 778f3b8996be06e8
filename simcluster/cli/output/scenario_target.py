"""Where a written scenario goes: to standard output, or to a file that is never replaced unasked."""

from __future__ import annotations

from pathlib import Path

from simcluster.cli.output.result_files import check_writable, write_text
from simcluster.cli.output.terminal import print_note, print_result
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError

SCHEMA = "scenario.schema.json"


@dataclass(frozen=True, slots=True)
class Target:
    """``-o FILE`` and ``--force``."""

    path: Path | None
    force: bool

    def check(self) -> None:
        """Raises ScenarioError if the file could not be written, or exists already."""
        check_writable("-o", self.path)
        if self.path is not None and self.path.is_file() and not self.force:
            raise ScenarioError(
                Problem("this file exists already", where=f"-o {self.path}", hint="--force replaces it")
            )

    def write(self, text: str) -> None:
        """Prints or writes the scenario; says where it is and how an editor can help with it."""
        if self.path is None:
            print_result(text.rstrip("\n"))
            return
        write_text(self.path, text)
        if not (self.path.parent / SCHEMA).exists():
            print_note(f"for hints in an editor: simcluster schema > {self.path.parent / SCHEMA}")
