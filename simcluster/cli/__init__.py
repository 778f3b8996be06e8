"""The command line: ``simcluster run scenarios/quickstart.yaml``.

Commands are thin and import their rooms when they are called, so that ``simcluster --help`` is quick.
"""

from __future__ import annotations

INTERRUPTED, TERMINATED = 130, 143


def main() -> None:
    """Runs the command line of this process and ends it with its exit code; Ctrl-C at any moment is 130."""
    # Everything is imported inside, where an interrupt is caught from the first moment on.
    try:
        import signal
        import sys

        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
        from simcluster.cli.app import command_line

        code = command_line(sys.argv[1:])
        # What is left is the interpreter's own end, where an interrupt could only cause noise.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        import os

        os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED)
    sys.exit(code)
