"""Buckets of stages that are equal up to names: what is renamed is what is lowered for each by itself."""

from __future__ import annotations

import pytest

from simcluster.program import build
from simcluster.program.buckets.equal_stages import EqualStages
from simcluster.simulation.compose.build import plan_scenario
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

LIMIT = {"overlap": True, "bucket": "whole", "limit": {"bytes": "4 KiB"}}
WHOLE = {"overlap": False, "bucket": "whole"}
FORMS = {
    "whole": ({}, WHOLE, 1),
    "zero 1": ({"optimizer_sharding": {"zero": 1}}, LIMIT, 1),
    "tied": ({"model": {**TINY_GPT, "layers": 8}}, LIMIT, 1),
    "chunks": ({"schedule": {"kind": "interleaved", "chunks": 2}}, LIMIT, 1),
    "fused": ({"fusion": {"all_reduce": {"mode": "size", "config": 1}}}, LIMIT, 0),
}
"""What is written, how gradients are reduced, and how many of four stages have buckets as another has."""


@pytest.mark.parametrize("form", FORMS)
def test_stages_by_themselves_have_the_same_program(form, monkeypatch):
    parallel, reduction, equal = FORMS[form]
    form = {"model": {**TINY, "layers": 8}, "micro_batches": 8, **parallel}
    plan = plan_scenario(under(scenario({"pipeline": 4, "data": 2}, **form), reduction=reduction))
    renamed, seen = EqualStages.renamed, []
    monkeypatch.setattr(EqualStages, "renamed", lambda *part: seen.append(renamed(*part)) or seen[-1])
    program = build(plan)
    assert len(seen) == 4
    assert 4 - seen.count(None) == equal
    monkeypatch.setattr(EqualStages, "renamed", lambda *part: None)
    assert build(plan) == program
