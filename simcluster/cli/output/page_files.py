"""Pages for people: with the day and the command that made them, which other result files do not have."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from simcluster.report import PageOrigin, report_page
from simcluster.trace import Run, atomic_path


def page_origin(arguments: Sequence[str] | None) -> PageOrigin:
    """Today's, of a command line with these arguments."""
    command = shlex.join(["simcluster", *(arguments or ())])
    return PageOrigin(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", command)


def write_page(path: Path, run: Run, origin: PageOrigin | None) -> None:
    """Writes the report of a run, complete or not at all."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        file.writelines(text.encode() for text in report_page(run, origin))
