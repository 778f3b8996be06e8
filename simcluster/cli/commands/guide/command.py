"""``simcluster guide``."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = (
    "simcluster guide",
    "simcluster guide memory",
    "simcluster guide troubleshooting | less",
    "simcluster guide scenario_keys > keys.md",
)

_HEADING = """# The guide to simcluster

Read a topic with `simcluster guide TOPIC`. New users begin with `scenarios`, then `how_it_works`.

"""


def _names(incomplete: str) -> list[str]:
    from simcluster.guide import topics

    return [topic.name for topic in topics() if topic.name.startswith(incomplete)]


def guide(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", autocompletion=_names, show_default=False)
    ] = None,
) -> None:
    """Read the guide: without a topic, the list of topics.

    Each topic explains one part of simcluster with examples. Into a file or a pipe the text is written as
    Markdown.
    """
    from simcluster.cli.commands.guide.markdown_screen import is_drawn, markdown_screen
    from simcluster.cli.output.terminal import print_result
    from simcluster.guide import find_topic, topics

    if topic is None:
        entries = [f"- **{entry.name}**: {entry.summary}" for entry in topics()]
        text = _HEADING + "\n".join(entries)
    else:
        text = find_topic(topic).text.rstrip()
    drawn = is_drawn()
    print_result(markdown_screen(text) if drawn else text, drawn=drawn)
