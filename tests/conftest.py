"""Tests import their shared modules as ``tests.<name>``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))


def pytest_addoption(parser):
    parser.addoption(
        "--update-baselines", action="store_true", help="rewrite the goldens of shipped scenarios"
    )
