"""Where results go: checked before a simulation starts, written complete or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simcluster.cli.output.terminal import print_note
from simcluster.deferred_dataclass import dataclass
from simcluster.document import real_path
from simcluster.errors import Problem, ScenarioError
from simcluster.listings import rank_list
from simcluster.report import renderers, write_perfetto
from simcluster.trace import Run, atomic_path

if TYPE_CHECKING:
    from simcluster.report import PageOrigin

STANDARD_OUTPUT = "-"

RUN, SCENARIO = "run.simrun", "scenario.yaml"
"""The files of a scenario in the folder given by ``--out``, beside those of the report formats."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What ``--out``, ``--trace``, ``--json`` and ``--html`` name, and whose results go there."""

    scenarios: Sequence[str]
    """Their files."""
    out: Path | None = None
    """The folder for all results; for several scenarios one in it for each."""
    trace: Path | None = None
    """The file of the trace."""
    json: str | None = None
    """The file of the JSON; ``-`` is standard output."""
    ranks: str | None = None
    """Those whose tracks traces show, as text; by default one of each class."""
    html: Path | None = None
    """The file of the page."""
    origin: PageOrigin | None = None
    """What that page says of where it is from; the one in ``out`` says nothing of it."""
    whatif: bool | None = None
    """Whether pages also say what other hardware would change."""

    @property
    def json_to_screen(self) -> bool:
        """Whether standard output belongs to the JSON."""
        return self.json == STANDARD_OUTPUT

    @property
    def json_file(self) -> Path | None:
        """The file of the JSON."""
        return None if self.json is None or self.json_to_screen else Path(self.json)

    def check(self) -> None:
        """Raises ScenarioError, with every problem, if something could not be written later."""
        problems = []
        if self.trace is not None and len(self.scenarios) > 1:
            problems.append(
                Problem("one trace holds one scenario; use --out DIR for several", where="--trace")
            )
        if self.ranks is not None and self.trace is None and self.out is None:
            problems.append(
                Problem(
                    "no trace is written to show them in; add --trace FILE", where=f"--ranks {self.ranks}"
                )
            )
        if self.html is not None and len(self.scenarios) > 1:
            problems.append(Problem("one page shows one scenario; use --out DIR for several", where="--html"))
        if self.whatif and self.html is None and self.out is None:
            problems.append(Problem("no report is written to say it in; add --html FILE", where="--whatif"))
        for option, path in self._named():
            if path is not None:
                problems += refused_file(option, path)
        if self.out is not None and (reason := _refused_folder(self.out)):
            problems.append(Problem(reason, where=f"--out {self.out}"))
        problems += self._collisions()
        if problems:
            raise ScenarioError(*problems)

    def _named(self) -> list[tuple[str, Path | None]]:
        """The files that options name."""
        return [("--trace", self.trace), ("--json", self.json_file), ("--html", self.html)]

    def _collisions(self) -> list[Problem]:
        """No result may replace a scenario that is read, or another result."""
        taken = {real_path(path): f"the scenario {path}" for path in self.scenarios}
        named = self._named()
        if self.out is not None:
            named += [(f"--out {self.out}", folder / SCENARIO) for folder in self.folders()]
        problems = []
        for option, path in named:
            if path is None or (path.exists() and not path.is_file()):
                continue
            if (owner := taken.setdefault(real_path(path), option)) != option:
                problems.append(Problem(f"{path} would replace {owner}", where=option))
        return problems

    def folders(self) -> list[Path]:
        """The folder of each scenario below ``--out``: that folder itself if there is only one scenario."""
        assert self.out is not None
        if len(self.scenarios) == 1:
            return [self.out]
        folders: list[Path] = []
        for scenario in self.scenarios:
            name, number = Path(scenario).stem, 1
            while self.out / name in folders:
                number += 1
                name = f"{Path(scenario).stem}-{number}"
            folders.append(self.out / name)
        return folders

    def chosen(self, num_ranks: int) -> NDArray[np.int64] | None:
        """The ranks that traces show; ScenarioError if they are no list or one of them does not exist."""
        if self.ranks is None:
            return None
        try:
            return rank_list(self.ranks, num_ranks)
        except ValueError as error:
            raise ScenarioError(Problem(str(error), where=f"--ranks {self.ranks}")) from None

    def write(self, index: int, run: Run, scenario_text: str) -> list[Path]:
        """Writes the files of one scenario and gives their names: a folder for ``--out``, trace and page.

        A run of too many different ranks for one file is left out of the folder, whose files are the same
        bytes whenever the scenario is simulated.
        """
        written = []
        ranks = self.chosen(len(run.ranks))
        if self.out is not None:
            folder = self.folders()[index]
            folder.mkdir(parents=True, exist_ok=True)
            same = run.repeatable
            write_bytes(folder / SCENARIO, scenario_text.encode())
            for renderer in renderers().values():
                with atomic_path(folder / renderer.file_name) as partial, partial.open("wb") as file:
                    file.writelines(renderer.render(same, ranks))
            if run.storable:
                same.save(folder / RUN)
            written.append(folder)
        return written + self.write_named(run)

    def write_named(self, run: Run) -> list[Path]:
        """Writes the trace and the page, where they are asked for, and gives their names."""
        written = []
        if self.trace is not None:
            write_perfetto(run, self.trace, self.chosen(len(run.ranks)))
            written.append(self.trace)
        if self.html is not None:
            from simcluster.cli.output.page_files import write_page

            write_page(self.html, run, self.origin)
            written.append(self.html)
        return written


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file, complete or not at all."""
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Writes the file that an option names, and says so."""
    write_bytes(path, text.encode())
    print_note(f"written: {path}")


def check_writable(option: str, path: Path | None) -> None:
    """Raises ScenarioError if the file an option names, where it names one, could not be written later."""
    if path is not None and (problems := refused_file(option, path)):
        raise ScenarioError(*problems)


def check_folder(option: str, path: Path | None) -> None:
    """Raises ScenarioError if the folder an option names, where it names one, could not be made later."""
    if path is not None and (reason := _refused_folder(path)):
        raise ScenarioError(Problem(reason, where=f"{option} {path}"))


_CIRCLE = "this is a link that leads back to itself"

_FILE_OPTIONS = {".html": "--html", ".json": "--json", ".gz": "--trace"}
"""The option that writes one file of that kind."""


def refused_file(option: str, path: Path) -> list[Problem]:
    """Why the file an option names cannot be written, or nothing."""
    if path.is_dir():
        reason = "this is a folder; name a file in it"
    elif path.exists() and not path.is_file():
        reason = ""
    elif real_path(path).is_symlink():
        reason = _CIRCLE
    elif not path.parent.exists():
        reason = f"there is no folder '{path.parent}'"
    else:
        reason = _refused_parent(path.parent)
    return [Problem(reason, where=f"{option} {path}")] if reason else []


def _refused_folder(folder: Path) -> str:
    """Why a folder cannot be made or written to, or nothing."""
    if folder.exists() and not folder.is_dir():
        return "this is a file; name a folder"
    if not folder.exists() and (option := _FILE_OPTIONS.get(folder.suffix)):
        return f"this names a folder; one file is written by {option} {folder.name}"
    if real_path(folder).is_symlink():
        return _CIRCLE
    while not folder.exists():
        folder = folder.parent
    return _refused_parent(folder)


def _refused_parent(folder: Path) -> str:
    if not folder.is_dir():
        return f"'{folder}' is not a folder"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"nothing can be written into '{folder}': {(error.strerror or str(error)).lower()}"
