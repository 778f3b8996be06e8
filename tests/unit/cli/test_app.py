"""Which commands a command line makes, and that a help text without their options lists them rightly."""

import pytest

from simcluster.cli import app, commands


def test_commands_are_listed_as_they_are():
    listed, whole = app._application(()), app._application(tuple(commands.names()))
    said = {name: command.get_short_help_str(200) for name, command in listed.commands.items()}
    assert list(said) == commands.names()
    assert said == {name: command.get_short_help_str(200) for name, command in whole.commands.items()}


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("run a.yaml", ["run"]),
        ("", []),
        ("--help", []),
        ("rum a.yaml", []),
        ("-- run a.yaml", commands.names()),
        ("--help run", commands.names()),
    ],
)
def test_only_what_a_line_needs_is_made(line, made):
    assert list(app._needed(line.split())) == made


def test_a_shell_completes_options(monkeypatch, capsys):
    words = {"COMP_WORDS": "simcluster run --htm", "COMP_CWORD": "2"}
    for name, value in {app.COMPLETION: "complete_bash", **words}.items():
        monkeypatch.setenv(name, value)
    assert app.command_line([]) == 0
    assert capsys.readouterr().out.split() == ["--html"]
