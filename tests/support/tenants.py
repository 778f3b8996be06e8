"""Scenarios that share a cluster, each on hosts of its own."""

from __future__ import annotations

from simcluster.scenario import Scenario

MODEL = {"layers": 2, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 1000}
TRUNK_SHARE = 4


def tenant_scenario(mesh, *, steps=1, batch=2, layers=2, ring=True):
    """What one scenario trains: pure data parallelism reduces everything at the end, over a ring."""
    ways = mesh.get("data", 1)
    found = {
        "model": {**MODEL, "layers": layers},
        "training": {"global_batch": batch * ways, "micro_batch": 1, "seq_len": 128, "precision": "bf16"},
        "parallel": {"mesh": mesh},
        "run": {"steps": steps},
    }
    return {**found, "collectives": {"algorithm": "ring"}} if ring else found


def cluster(hosts, **more):
    network = {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": TRUNK_SHARE}
    return {"use": "dgx-h100", "hosts": hosts, "network": network, **more}


def shared(first, own, tenants, *, hosts=8, **more):
    """A scenario on its ``own`` hosts, and the others on theirs."""
    entries = [
        {"name": f"tenant {index}", "scenario": each, "hosts": where}
        for index, (each, where) in enumerate(tenants)
    ]
    data = {"simcluster": 1, "name": "first", "cluster": cluster(hosts, own_hosts=own, **more), **first}
    return Scenario.of({**data, "tenants": entries} if entries else data)
