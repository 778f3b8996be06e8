"""Help, completion and ``import simcluster`` stay quick because nothing heavy is imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from simcluster.cli.commands import names
from tests.support.covering import quick

HEAVY = ("numpy", "simpy", "ruamel", "orjson", "rustworkx")
PACKAGES = (
    "advice",
    "analysis",
    "api",
    "baseline",
    "cluster",
    "collectives",
    "document",
    "engine",
    "explanation",
    "model",
    "plan",
    "report",
    "scenario",
    "search",
    "simulation",
    "tuning",
    "what_if",
)
COMMANDS = names()

REPORT = """
import json, sys
try:
    {code}
finally:
    sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""
HELP = f"""
    import contextlib
    from simcluster.cli.app import command_line
    for name in {COMMANDS!r}:
        with contextlib.suppress(SystemExit):
            command_line([name, "--help"])
"""


def imported(code, **environment):
    """The modules that are there after the code, and what it printed."""
    found = subprocess.run(
        [sys.executable, "-c", REPORT.format(code=code)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    return set(json.loads(found.stderr.splitlines()[-1])), found.stdout


def called(*arguments):
    """The same for a command line."""
    return imported(f"from simcluster.cli.app import command_line; command_line({list(arguments)!r})")


def assert_light(modules):
    """Neither heavy packages nor our own; what typer itself imports is its own affair."""
    heavy = {*HEAVY, *(f"simcluster.{package}" for package in PACKAGES)}
    assert not heavy & modules
    assert "simcluster" in modules


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",)])
def test_help_imports_nothing_heavy(arguments):
    modules, out = called(*arguments)
    assert_light(modules)
    assert "pydantic" not in modules
    assert out.startswith(("Usage: simcluster", "simcluster "))


def test_help_of_commands_imports_none_of_their_packages():
    """One after another in one process, where what any of them imports would stay."""
    modules, out = imported(HELP)
    assert_light(modules)
    assert re.findall(r"^Usage: simcluster (\S+)", out, re.MULTILINE) == list(COMMANDS)


COMPLETED = [
    ("simcluster c", ["compare", "check", "collective", "catalog", "checkpoint", "calibrate"]),
    ("simcluster run --tr", ["--trace"]),
    ("simcluster import m", ["megatron", "mindformers"]),
    ("simcluster init --cluster dgx-h20", ["dgx-h200"]),
    ("simcluster collective all_reduce --cluster dgx-h10", ["dgx-h100", "dgx-h100-sharp"]),
    ("simcluster catalog m", ["models"]),
    ("simcluster catalog devices h100-s", ["h100-sxm"]),
]


def test_a_command_imports_no_other():
    modules, _ = called("run", "--help")
    assert {name for name in COMMANDS if modules & parts_of(name)} == {"run"}


def parts_of(name):
    """The modules that the function of a command may be in."""
    module = "simcluster.cli.commands." + {"import": "import_"}.get(name, name)
    return {module, f"{module}.command"}


def test_wrong_usage_imports_nothing_heavy():
    assert_light(called("run")[0])
    assert_light(called("rum")[0])


@pytest.mark.parametrize(
    ("words", "completed"),
    quick(COMPLETED, *COMPLETED[::3]),
)
def test_completion_imports_nothing_heavy(words, completed):
    modules, out = imported(
        "from simcluster.cli.app import command_line; command_line([])",
        _SIMCLUSTER_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert_light(modules)
    assert out.split() == completed


def test_the_package_imports_nothing_but_itself():
    modules, _ = imported("import simcluster")
    assert_light(modules)
    assert {name for name in modules if name.startswith("simcluster.")} <= {
        "simcluster._version",
        "simcluster.lazy_exports",
    }
