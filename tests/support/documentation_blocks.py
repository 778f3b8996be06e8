"""The code blocks of the README and the guide, and the commands that are in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import simcluster

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((Path(simcluster.__file__).parent / "guide").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"[|<>;&`]|\$\(|<<")
"""What needs a shell."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line where it begins, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The commands of a console block; where lines begin with ``$``, the others are output."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if any(line.startswith("$ ") for line in lines):
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip() and not line.startswith("#")]

    @property
    def output(self) -> list[str]:
        """The lines of output that a console block shows, without those that say that some are left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        shown = [line.rstrip() for line in lines if not line.startswith("$ ")]
        return [line for line in shown if line and line != "..."] if len(shown) < len(lines) else []

    @property
    def needs_shell(self) -> bool:
        return any(SHELL.search(command) for command in self.commands)


def blocks(language=None):
    """All blocks (in one language), page by page."""
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in FENCE.finditer(text)
        if language in (None, match[1])
    ]


def arguments(command, folder):
    """The words behind ``simcluster`` of a command without a shell, with patterns of files filled in."""
    _, *words = shlex.split(command, comments=True)
    found = []
    for word in words:
        files = folder.glob(word) if "*.yaml" in word else ()
        found += sorted(str(path.relative_to(folder)) for path in files) or [word]
    return found
