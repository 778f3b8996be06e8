"""Topics of the guide: Markdown files with a title and a first paragraph that says what they are for."""

from __future__ import annotations

import re

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError, nearest

SUFFIX = ".md"
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its name, as users type it, and its text in Markdown."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """The heading of the whole."""
        return self._paragraphs[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first sentence behind the title, in one line: what the topic is for."""
        return re.split(r"(?<=\.)\s", " ".join(self._paragraphs[1].split()))[0]

    @property
    def _paragraphs(self) -> list[str]:
        return self.text.split("\n\n")


def topics() -> tuple[Topic, ...]:
    """All topics by name: the files of this folder, and the design of the package."""
    from importlib.resources import files

    guide = {file.name: file for file in files(__package__).iterdir() if file.name.endswith(SUFFIX)}
    guide[f"design{SUFFIX}"] = files("simcluster").joinpath("DESIGN.md")
    return tuple(
        Topic(name.removesuffix(SUFFIX), _COMMENT.sub("", file.read_text(encoding="utf-8")))
        for name, file in sorted(guide.items())
    )


def find_topic(name: str) -> Topic:
    """The topic of this name; blanks, hyphens and capitals do not matter.

    Raises:
        SimclusterError: there is none; the message names the nearest one.
    """
    by_name = {topic.name: topic for topic in topics()}
    wanted = re.sub(r"[\s-]+", "_", name.strip().lower()).removesuffix(SUFFIX)
    if wanted not in by_name:
        raise SimclusterError(f"the guide has no topic '{name}'", hint=nearest(wanted, by_name))
    return by_name[wanted]
