"""``trace.json.gz``: every kernel and collective, for ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.report.perfetto import compressed, trace_events
from simcluster.report.renderer import Renderer
from simcluster.trace import Run


class TraceRenderer(Renderer):
    """The trace in Chrome's JSON format, compressed."""

    kind: ClassVar[str] = "trace"
    suffix: ClassVar[str] = ".json.gz"

    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """A gzip stream, written while it is made."""
        return compressed(trace_events(run, ranks))
