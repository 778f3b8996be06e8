"""Every notebook runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LONGEST_CELL_S = 300


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path):
    from nbmake.nb_run import NotebookRun  # seconds, which only who runs notebooks should wait for

    error = NotebookRun(path, LONGEST_CELL_S).execute().error
    assert error is None, error.trace
