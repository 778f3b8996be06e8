"""Schedules without options, and the name of a row of choices."""

from __future__ import annotations

from dataclasses import fields

from simcluster.plan.spec.schedule_spec import schedule_kinds

SINGLE = [kind for kind, each in schedule_kinds().items() if not fields(each) and len(each().chain(2)) == 2]
"""Schedules of one chunk per stage; those of several have a file of their own: test_pipelines.py."""


def label(row) -> str:
    recipe, mesh = row["place"]
    shape = "x".join(f"{axis}{size}" for axis, size in mesh.items())
    return "-".join([recipe, shape, *(str(value) for name, value in row.items() if name != "place")])
