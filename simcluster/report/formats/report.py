"""``report.html``: the whole report as a page for a browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.draw import html_page
from simcluster.report.notebook import result_html
from simcluster.report.renderer import Renderer
from simcluster.trace import Run


class PageRenderer(Renderer):
    """What a notebook shows of a result, as a page: tables and pictures, without scripts."""

    kind: ClassVar[str] = "report"
    suffix: ClassVar[str] = ".html"

    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """The whole page at once."""
        yield html_page(run.documents["plan"]["name"], "margin:24px", result_html(run)).encode()
