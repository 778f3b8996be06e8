"""A pytest plugin: puts the mutant that ``SIMCLUSTER_MUTANT`` names in place before tests are collected."""

from __future__ import annotations

import os

import pytest

from tests.attack.mutants import named, plant


def pytest_configure(config: pytest.Config) -> None:
    """Plants the mutant."""
    plant(named(os.environ["SIMCLUSTER_MUTANT"]))
