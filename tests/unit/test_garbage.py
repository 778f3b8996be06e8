"""The collector keeps still during long work, and what arrays leave is used again."""

import gc
import platform
import subprocess
import sys

import pytest

from simcluster.garbage import no_collection

ROUNDS = """
import resource
from contextlib import nullcontext
import numpy as np
from simcluster.garbage import no_collection

with {context}():
    for turn in range(9):
        if turn == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        arrays = [np.ones(10**6) for _ in range(4)]
        del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_the_collector_is_on_again_behind_long_work():
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a rule of glibc")
def test_pages_of_freed_arrays_are_used_again():
    faults = {
        context: int(
            subprocess.run(
                [sys.executable, "-c", ROUNDS.format(context=context)],
                check=True,
                capture_output=True,
                env={"NUMPY_MADVISE_HUGEPAGE": "0", "PYTHONPATH": ":".join(sys.path)},
            ).stdout
        )
        for context in ("nullcontext", "no_collection")
    }
    assert faults["no_collection"] * 10 < faults["nullcontext"]
