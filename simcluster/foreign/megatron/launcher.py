"""The programs that start one process per device: torchrun, srun, mpirun, deepspeed, and batch comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

_NAMES: Mapping[str, str] = {
    "--nnodes": "hosts",
    "--nodes": "hosts",
    "-N": "hosts",
    "-nnodes": "hosts",
    "-np": "processes",
    "-n": "processes",
    "--ntasks": "processes",
    "--num-nodes": "hosts",
    "--nproc-per-node": "devices_per_host",
    "--gpus-per-node": "gpus",
    "--gres": "gpus",
    "--ntasks-per-node": "tasks",
    "--npernode": "tasks",
    "--num-gpus": "gpus",
    "--worker-num": "world",
    "--local-worker-num": "devices_per_host",
}
_OF_HOSTS = frozenset(name for name, key in _NAMES.items() if key == "hosts")
_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z0-9_.-]*:)?([0-9]+)")


def state_launcher(facts: Facts, flags: Iterable[Flag], hosts: int | None) -> None:
    """States hosts and devices per host; other options of a launcher have no effect on a step.

    ``hosts`` is what the user says. A launcher that starts a process for every device of a host has one host
    unless told otherwise; what MPI and Slurm start are processes of all hosts.
    """
    flags = [*flags]
    names = {flag.name.replace("_", "-") for flag in flags}
    for flag in flags:
        name = flag.name if not flag.name.startswith("--") else flag.name.replace("_", "-")
        facts.flags.append(flag)
        key = _NAMES.get(name)
        if key is None:
            facts.effectless(flag)
            continue
        value = flag.value[0] if isinstance(flag.value, list) else ""
        count = _COUNT.fullmatch(value)
        if count is None or int(count[1]) < 1:
            other = "--cluster, --hosts or another option says it"
            facts.remark(f"{flag.where}: {flag}: the number is not in the file; {other}")
        else:
            facts.say(key, int(count[1]), flag)
    starts_each = "devices_per_host" in facts.known
    for name in ("gpus", "tasks"):
        if name in facts.known and "devices_per_host" not in facts.known:
            facts.known["devices_per_host"] = facts.known[name]
    if not starts_each and facts.get("processes", 0) > facts.get("hosts", 0):
        facts.known["world"] = facts.known["processes"]
    if starts_each and "hosts" not in facts.known and hosts is None and not names & _OF_HOSTS:
        text = "one host, the launcher's default without --nnodes; --hosts says otherwise"
        facts.default("hosts", 1, text)
        facts.remark(text)
