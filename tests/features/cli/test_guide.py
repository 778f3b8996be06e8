"""The guide in the terminal, and the topics that are written from the schema."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import simcluster as package
from simcluster.guide import find_topic, topics
from simcluster.scenario import key_references
from tests.support.documentation_blocks import PAGES
from tests.support.source_trees import source_nodes

FOLDER = Path(package.__file__).parent / "guide"
TOPICS = topics()


def test_the_list_has_every_file_with_its_first_paragraph(simcluster):
    code, out, err = simcluster("guide")
    assert (code, err) == (0, "")
    assert {topic.name for topic in TOPICS} >= {file.stem for file in FOLDER.glob("*.md")}
    for topic in TOPICS:
        assert f"- **{topic.name}**: {topic.summary}\n" in out


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_topics_begin_with_a_title_and_a_short_paragraph(topic):
    assert topic.text.startswith("# ")
    assert 40 <= len(topic.summary) <= 400
    assert topic.summary.endswith((".", ":"))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_file_gets_the_markdown_without_comments(simcluster, topic):
    code, out, err = simcluster("guide", topic.name)
    assert (code, err) == (0, "")
    assert out.rstrip("\n") == topic.text.rstrip("\n")
    assert "<!--" not in out


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_it_drawn(simcluster, monkeypatch, columns):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    drawn = simcluster("guide", "memory").out
    assert "\x1b[" in drawn
    monkeypatch.setenv("NO_COLOR", "1")
    plain = simcluster("guide", "memory").out
    assert plain.startswith("# ")  # nothing is drawn where nobody would see it


def test_a_wrong_name_gets_the_nearest(simcluster):
    code, out, err = simcluster("guide", "acuracy")
    assert (code, out) == (2, "")
    assert err == "Error: the guide has no topic 'acuracy'\n    did you mean 'accuracy'?\n"


@pytest.mark.parametrize("name", ["scenario-keys", "Scenario Keys", "scenario_keys.md"])
def test_names_may_be_written_as_titles_are(name):
    assert find_topic(name).name == "scenario_keys"


@pytest.mark.parametrize("name", ["scenario_keys", "hardware_keys"])
def test_lists_of_keys_are_those_of_the_schema(request, name):
    text = key_references()[name]
    file = FOLDER / f"{name}.md"
    if request.config.getoption("--update-baselines"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "run it with --update-baselines"


MESSAGES = [
    message
    for heading in find_topic("troubleshooting").text.splitlines()
    if heading.startswith("### `")
    for message in heading.removeprefix("### `").removesuffix("`").split("`, `")
]


@cache
def strings():
    """All texts in the code."""
    return "\n".join(
        node.value
        for file in FOLDER.parent.rglob("*.py")
        for node in source_nodes(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_under_troubleshooting_are_those_of_the_code(message):
    for words in message.split("..."):
        assert words.strip("' ,:;") in strings()


LINK = re.compile(r"\]\(([^)\s#]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    targets = {target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target}
    assert not [target for target in targets if not (page.parent / target).exists()]
