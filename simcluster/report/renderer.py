"""What a report format is, and all of them by kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from simcluster.registry import kinds
from simcluster.trace import Run


class Renderer(ABC):
    """A report format: how the content of one file is made from a run.

    ``kind`` names it in ``Result.to`` and, with ``suffix``, its file in the folder of ``run --out``.
    """

    kind: ClassVar[str]
    suffix: ClassVar[str]

    @property
    def file_name(self) -> str:
        """The name of its file in the folder of ``run --out``: ``result.json``."""
        return self.kind + self.suffix

    @abstractmethod
    def render(self, run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
        """The file's content in pieces; equal runs give equal bytes.

        A format that shows single ranks shows ``ranks``, by default one of each class of equal ranks; others
        leave them aside. Raises TraceError if there is no such rank.
        """


def renderers() -> dict[str, Renderer]:
    """Every report format by its kind: those of ``simcluster.report.formats``, and of installed packages."""
    return {kind: renderer() for kind, renderer in kinds("simcluster.report.formats", Renderer).items()}
