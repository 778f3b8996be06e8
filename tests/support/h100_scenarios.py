"""Small decoders on H100 hosts."""

from __future__ import annotations

from simcluster.scenario import Scenario


def h100(mesh, *, name="small", layers=8, hidden=512, micro_batches=8, run=None, training=None, **parallel):
    """A small model on H100 hosts, as many as the mesh needs."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    return Scenario.of(
        {
            "simcluster": 1,
            "name": name,
            "cluster": {"use": "dgx-h100", "hosts": max(1, ranks // 8)},
            "model": {
                "layers": layers,
                "hidden": hidden,
                "heads": 8,
                "kv_heads": 8,
                "ffn": 4 * hidden,
                "vocab": 1000,
            },
            "training": {
                "global_batch": micro_batches * mesh.get("data", 1),
                "micro_batch": 1,
                "seq_len": 256,
                **(training or {}),
            },
            "parallel": {"mesh": mesh, **parallel},
            "run": run or {},
        }
    )
