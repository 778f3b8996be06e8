"""``report.html``: the whole report as a page for a browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.report.html import report_page
from simcluster.report.renderer import Renderer
from simcluster.trace import Run


class PageRenderer(Renderer):
    """The interactive report, without the day and the command that made it."""

    kind: ClassVar[str] = "report"
    suffix: ClassVar[str] = ".html"

    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """The page in pieces."""
        return (text.encode() for text in report_page(run))
