"""A package that adds kinds, and a process in which it is installed and command lines run in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from textwrap import dedent
from typing import NamedTuple

SERVER = """
import contextlib, io, json, sys
from simcluster.cli.app import command_line
for line in sys.stdin:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command_line(json.loads(line))
    ended = []
    for stream in (out, err):
        stream.flush()
        ended.append(stream.buffer.getvalue().decode())
    print(json.dumps([code, *ended]), flush=True)
"""


class Ended(NamedTuple):
    """How a command line ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@contextmanager
def installed(folder, family, source):
    """A function that runs a command line where a module of ``source`` adds a kind to a family."""
    (folder / "added.py").write_text(dedent(source))
    about = folder / "added-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{family}]\nadded = added\n")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def call(*arguments):
        server.stdin.write(json.dumps(arguments) + "\n")
        server.stdin.flush()
        return Ended(*json.loads(server.stdout.readline()))

    with server:
        yield call
