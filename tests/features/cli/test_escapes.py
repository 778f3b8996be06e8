"""Escape sequences in files and file names do not reach the terminal, with colours or without."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.covering import quick
from tests.support.scenario_texts import SMALL, but

EVIL = "a\x1b[31;5mb\x1b]0;title\x07c\x9b2Jd\u202ee\rf"
WRITTEN = r'"a\e[31;5mb\e]0;title\ac\x9b2Jd\u202ee\rf"'
NAMED = but("name: small", f"name: {WRITTEN}")
TENANTS = f"""\
simcluster: 1
name: {WRITTEN}
cluster: {{use: dgx-h100, hosts: 2}}
model: {{layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 100}}
training: {{global_batch: 16, micro_batch: 1, seq_len: 16, precision: fp32}}
parallel: {{mesh: {{data: 8}}}}
tenants:
  - name: {WRITTEN[:-1]}2"
    hosts: [1]
    scenario:
      model: {{layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 100}}
      training: {{global_batch: 16, micro_batch: 1, seq_len: 16, precision: fp32}}
      parallel: {{mesh: {{data: 8}}}}
"""
STYLE = re.compile(r"\x1b\[(?!31;5m)[\d;]*m")
COMMAND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

COMMANDS = {
    "run": ("run",),
    "broken bound": ("run", "--quiet", "--set", "expect={step_time: {max: 0}}"),
    "json": ("run", "--json", "-"),
    "too large": ("run", "--set", "cluster={host: {use: cpu-server, device: {memory: 1 MiB}}, hosts: 4}"),
    "folder": ("run", "--out", "out"),
    "lint": ("lint",),
    "axis": ("lint", "--set", f"parallel.mesh.{EVIL}=2"),
    "model": ("lint", "--set", f"model={{use: {WRITTEN}}}"),
    "recipe": ("lint", "--set", f"parallel.recipe={WRITTEN}"),
    "figure": ("lint", "--set", f"expect={{{WRITTEN}: {{max: 1}}}}"),
    "verify": ("verify",),
    "layouts": ("layouts",),
    "strategies": ("layouts", "--as-strategies"),
    "operator": ("layouts", "--operator", EVIL),
    "explain": ("explain",),
    "explain json": ("explain", "--json"),
    "compare": ("compare", "small.yaml"),
    "compare json": ("compare", "small.yaml", "--json"),
    "update": ("check", "--baseline", f"{EVIL}.json", "--update"),
    "check": ("check", "--baseline", f"{EVIL}.json"),
}


def told(said):
    """What reached the terminal without the codes of our own colours."""
    return STYLE.sub("", said.out + said.err)


@pytest.mark.parametrize("name", quick(COMMANDS, *[*COMMANDS][::3]))
@pytest.mark.parametrize(
    "colour", [pytest.param("", marks=pytest.mark.thorough), "1"], ids=["plain", "coloured"]
)
def test_names_are_no_commands(simcluster, here, monkeypatch, colour, name):
    (here / f"{EVIL}.yaml").write_text(NAMED)
    (here / "small.yaml").write_text(SMALL)
    command, *rest = COMMANDS[name]
    monkeypatch.setenv("FORCE_COLOR", colour)
    said = simcluster(command, f"{EVIL}.yaml", *rest)
    assert said.out + said.err
    assert not COMMAND.findall(told(said))
    if name == "json":
        assert json.loads(said.out)["name"] == EVIL
    if name == "folder":
        assert not COMMAND.findall((here / "out" / "summary.txt").read_text())


@pytest.mark.parametrize("colour", ["", "1"], ids=["plain", "coloured"])
def test_names_of_tenants_are_no_commands(simcluster, here, monkeypatch, colour):
    monkeypatch.setenv("FORCE_COLOR", colour)
    (here / "tenants.yaml").write_text(TENANTS)
    for command in ("run", "lint"):
        said = simcluster(command, "tenants.yaml")
        assert said.code == 0
        assert r"a\x1b[31;5mb\x1b]0;title" in said.out
        assert not COMMAND.findall(told(said))


def test_words_of_other_tools_are_no_commands(simcluster, here):
    (here / "run.sh").write_text(f"torchrun pretrain_gpt.py --num-layers {EVIL} --{EVIL} 3\n")
    said = simcluster("import", "megatron", "run.sh", "--cluster", "dgx-h100")
    assert said.code == 2 and said.err
    assert not COMMAND.findall(told(said))


def test_rows_of_measurements_are_no_commands(simcluster, here):
    titles = "id,source,op,hardware,num_devices,num_hosts,message_bytes,time_us,algbw_gb_s,busbw_gb_s,notes"
    row = f"{EVIL[:-2]},x,all_reduce,{EVIL[:-2]},8,1,1048576,100,,,"
    (here / "rows.csv").write_text(f"{titles}\n{row}\n")
    for more in ((), ("--csv",), ("--worst", "3")):
        assert not COMMAND.findall(told(simcluster("accuracy", "rows.csv", *more)))
