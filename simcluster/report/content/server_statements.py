"""Parameter servers, in words: how fast workers are, what they wait for, how stale gradients are."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster import units
from simcluster.trace import RunDocument

SERVER_FIGURES = ("holds", "pushed", "pulled", "works for", "busy")
"""The titles of the quantities in rows of ``server_rows``."""


def server_lines(summary: RunDocument) -> Iterator[str]:
    """What updates are, at what pace workers go, what gates cost, how stale gradients are."""
    servers = summary.get("parameter_server")
    if servers is None:
        return
    bound = f", at most {servers['bound']} steps apart" if "bound" in servers else ""
    yield (
        f"{servers['workers']:,} workers, {servers['servers']:,} servers with "
        f"{units.count(servers['parameters_on_servers'])} parameters, "
        f"{servers['update'].replace('_', '-')} updates{bound}"
    )
    paces = units.seconds(servers["step_s"])
    if servers["step_s_max"] > 1.001 * servers["step_s_min"]:
        paces += f" ({units.seconds(servers['step_s_min'])} to {units.seconds(servers['step_s_max'])})"
    yield (
        f"a worker's step takes {paces}, of which {units.seconds(servers['gate_wait_s'])} at gates: "
        f"{units.count(servers['samples_per_s'])} samples/s in all"
    )
    stale = servers["staleness"]
    if servers["update"] != "synchronous":
        yield (
            f"gradients meet weights that others have updated {stale['mean']:.2f} times meanwhile, "
            f"at most {stale['max']:,}"
        )


def server_rows(summary: RunDocument) -> list[list[str]]:
    """A row per server: where it is, and ``SERVER_FIGURES``."""
    servers = summary.get("parameter_server", {}).get("servers_busy", [])
    return [
        [
            f"  rank {server['rank']}, {server['host']}",
            units.size(server["memory_bytes"]),
            units.size(server["pushed_bytes"]),
            units.size(server["pulled_bytes"]),
            units.seconds(server["work_s"]) if server["work_s"] else "0 s",
            units.percent(server["busy"]),
        ]
        for server in servers
    ]
