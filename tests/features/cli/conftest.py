from __future__ import annotations

from typing import NamedTuple

import pytest

from simcluster.cli.app import command_line
from tests.support.scenario_texts import SMALL


class Said(NamedTuple):
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def simcluster(capsys, monkeypatch):
    """Runs a command line in this process."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        capsys.readouterr()
        code = command_line([str(argument) for argument in arguments])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(here):
    """The name of a small scenario that is right."""
    (here / "small.yaml").write_text(SMALL)
    return "small.yaml"
