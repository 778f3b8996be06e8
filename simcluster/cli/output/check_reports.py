"""Where the reports of a check go: files in some formats, and one on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from simcluster.baseline import CheckFormat, CheckReport, check_formats
from simcluster.cli.output.result_files import check_writable, write_text
from simcluster.cli.output.terminal import has_colour, print_result
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError, nearest


@dataclass(frozen=True, slots=True)
class ReportTargets:
    """The formats of ``--report``: with a file, or shown in place of the text."""

    files: tuple[tuple[CheckFormat, Path], ...]
    shown: CheckFormat | None

    @classmethod
    def of(cls, wanted: Iterable[str]) -> ReportTargets:
        """The targets in texts such as ``junit=check.xml`` and ``github``; ScenarioError for others."""
        formats, files, shown = check_formats(), list[tuple[CheckFormat, Path]](), list[CheckFormat]()
        for text in wanted:
            kind, equals, path = text.partition("=")
            where = f"--report {text}"
            if kind not in formats:
                raise ScenarioError(
                    Problem(f"there is no format '{kind}'", where=where, hint=nearest(kind, formats))
                )
            if equals and not path:
                raise ScenarioError(Problem("name the file behind the '='", where=where))
            if equals:
                check_writable("--report", Path(path))
                files.append((formats[kind], Path(path)))
            else:
                shown.append(formats[kind])
        if len(shown) > 1:
            message = "standard output can have one format: give the others a file, such as junit=check.xml"
            raise ScenarioError(Problem(message, where="--report"))
        return cls(tuple(files), shown[0] if shown else None)

    def write(self, report: CheckReport) -> None:
        """Writes the files, and prints the report: as text, or in the format that is to be shown."""
        if self.shown is None:
            print_result(report.text(colour=has_colour(), errors=False), drawn=True)
        else:
            print_result(self.shown.render(report).rstrip("\n"))
        for style, path in self.files:
            write_text(path, style.render(report))
