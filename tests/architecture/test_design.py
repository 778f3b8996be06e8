"""``simcluster/DESIGN.md`` names the packages that there are, and contract tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import simcluster

ROOT = Path(simcluster.__file__).parent
TEXT = (ROOT / "DESIGN.md").read_text()
PACKAGES = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.rglob("__init__.py")} - {""}


def named():
    """The packages in the first column of the tables of section 3."""
    section = TEXT.split("## 3. Packages")[1].split("## 4.")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_package_is_in_it_once():
    assert sorted(named()) == sorted(PACKAGES)


@pytest.mark.parametrize("folder", sorted(set(re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", TEXT))))
def test_folders_and_files_that_it_names_are_there(folder):
    assert (ROOT / folder).exists() or (ROOT.parent / folder).exists(), folder


def test_contract_tests_that_it_names_are_there():
    files = set(re.findall(r"`(?:tests/contracts/)?(test_\w+\.py)`", TEXT))
    assert files
    assert not [name for name in files if not (ROOT.parent / "tests" / "contracts" / name).exists()]


def test_layers_are_those_of_the_contract():
    """The list of section 3 is that of the import contract."""
    contract = re.search(r"^layers = \[\n(.*?)^\]", (ROOT.parent / "pyproject.toml").read_text(), re.M | re.S)
    assert contract is not None
    layers = re.findall(r'"([^"]+)"', contract[1])
    listed = TEXT.split("(`tests/architecture`).\n\n")[1].split("\n\n")[0]
    assert [line.strip() for line in listed.splitlines()] == layers
