"""``result.json``: the figures, for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.report.json_result import result_json
from simcluster.report.renderer import Renderer
from simcluster.trace import Run


class ResultRenderer(Renderer):
    """The summary's figures with the plan, as JSON."""

    kind: ClassVar[str] = "result"
    suffix: ClassVar[str] = ".json"

    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """The whole text at once."""
        yield result_json(run)
