"""``summary.txt``: the screen of ``simcluster run``, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.report.renderer import Renderer
from simcluster.report.terminal import summary_text
from simcluster.trace import Run


class SummaryRenderer(Renderer):
    """The summary as text of 100 columns, without colours."""

    kind: ClassVar[str] = "summary"
    suffix: ClassVar[str] = ".txt"

    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """The text, which ends with a newline."""
        yield summary_text(run, width=100).encode()
        yield b"\n"
