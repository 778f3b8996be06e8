"""Small scenarios with parameter servers on processors of their own."""

from __future__ import annotations

from simcluster.scenario import Scenario

MODEL = {"family": "gpt", "layers": 2, "hidden": 64, "heads": 4, "vocab": 512, "max_positions": 16}
WIDE_DEEP = {"family": "wide_deep", "fields": 4, "vocab": 4000, "embedding": 8, "mlp": [16, 8]}
BY_ROWS = {
    "kind": "adam",
    "groups": [
        {"match": "embedding.wide.*", "kind": "ftrl"},
        {"match": "embedding.deep.weight", "kind": "lazy_adam"},
    ],
}


def server_scenario(
    workers, servers, *, model=None, training=None, run=None, changes=(), job=None, **servers_do
):
    """``workers`` H100 on hosts of four, servers and scheduler on hosts of one processor each."""
    per_host = min(workers, 4)
    groups = [
        {"host": {"use": "dgx-h100", "devices": per_host}, "hosts": workers // per_host},
        {"host": {"use": "cpu-server", "devices": 1}, "hosts": servers + 1},
    ]
    data = {
        "simcluster": 1,
        "name": "servers",
        "cluster": {"groups": groups, "changes": list(changes)},
        "model": model or MODEL,
        "training": {
            "global_batch": 2 * workers,
            "micro_batch": 2,
            "seq_len": 1 if model else 16,
            "precision": "fp32",
            "optimizer": "momentum",
            **(training or {}),
        },
        "parallel": {"mesh": {"data": workers}, "parameter_server": {"servers": servers, **servers_do}},
        "run": run or {},
    }
    return Scenario.of(data | ({"job": job} if job else {}))
