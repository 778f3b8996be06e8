"""Whether a folded run is the unfolded one, span by span."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine import classes_on_links
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.run_scenario import run_built

COLUMNS = (
    "start",
    "end",
    "arrival",
    "stream",
    "kind",
    "operator",
    "micro_batch",
    "bytes",
    "flops",
    "instruction",
)


def assert_folded_is_unfolded(which):
    """Every rank of the unfolded run, which is given back, did what the representative of its class did."""
    folded, unfolded = simulate(which), simulate(which, unfold=True)
    assert_every_rank_is_its_class(build_scenario(which).classes, folded, unfolded)
    return unfolded


def assert_built_so_folded_is_unfolded(built):
    """The same where a plan that was made stands for both: far shorter, most where no two ranks are alike."""
    if len(built.classes) == built.program.mesh.num_ranks:
        return run_built(built, unfold=True)
    lone, fabric = classes_on_links(
        built.program, built.cluster, built.plan.execution.algorithms, unfold=True
    )
    unfolded = run_built(replace(built, classes=lone, fabric=fabric), unfold=True)
    assert_every_rank_is_its_class(built.classes, run_built(built), unfolded)
    return unfolded


def assert_every_rank_is_its_class(classes, folded, unfolded):
    assert len(classes) <= unfolded.documents["summary"]["num_ranks"]
    assert unfolded.documents["summary"]["num_classes"] == unfolded.documents["summary"]["num_ranks"]
    for name in ("step_time_s", "compute_s", "pipeline_wait_s", "mfu", "peak_memory_bytes_max", "host_s"):
        assert folded.documents["summary"][name] == pytest.approx(
            unfolded.documents["summary"][name], rel=1e-12
        )
    assert folded.documents["summary"]["step_time_s"] == unfolded.documents["summary"]["step_time_s"]
    for table, columns in (("spans", COLUMNS), ("memory", None), ("waits", None)):
        assert_same_rows(getattr(folded, table), getattr(unfolded, table), classes.of_rank, columns, table)


def assert_same_rows(folded, unfolded, of_rank, columns, table):
    """Every rank has the rows of its class, in all columns or in these, whatever numbers names have."""
    rows = np.argsort(folded["class"], kind="stable")
    borders = np.searchsorted(folded["class"][rows], np.arange(of_rank.max() + 2))
    theirs = np.concatenate([rows[borders[index] : borders[index + 1]] for index in of_rank.tolist()])
    mine = np.argsort(unfolded["class"], kind="stable")
    for column in columns or (each for each in folded.columns if each != "class"):
        ours, whole = unfolded[column], folded[column]
        if column in folded.names:
            texts = {text: number for number, text in enumerate(folded.names[column])}
            renamed = [texts.get(text, -1) for text in unfolded.names[column]]
            ours = np.array([*renamed, -1])[ours]
        wrong = np.flatnonzero(ours[mine] != whole[theirs]) if len(mine) == len(theirs) else mine
        assert not wrong.size, (table, column, int(unfolded["class"][mine[wrong[0]]]))
