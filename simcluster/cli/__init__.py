"""The command line: ``simcluster run scenarios/quickstart.yaml``.

Commands are thin and import what they need when they are called, so that ``simcluster --help`` is quick.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED, TERMINATED = 130, 143

_signals: list[int] = []
"""The signals that came and were raised."""


def main() -> None:
    """Runs the command line of this process and ends it with its exit code; Ctrl-C at any moment is 130, and
    being terminated 143.
    """
    # Everything is imported inside, where an interrupt is caught from the first moment on.
    try:
        import gc
        import signal
        import sys

        gc.set_threshold(400_000, 20, 20)  # most of what a command makes lives until it ends
        signal.signal(signal.SIGTERM, _stopped)
        sys.unraisablehook = _unraisable
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _stopped)
        from simcluster.cli.app import command_line

        code = command_line(sys.argv[1:])
        # What is left is the interpreter's own end: it need not search all that lives for circles of
        # references, and an interrupt could only cause noise.
        gc.freeze()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException as error:
        # Compiled code that calls back into Python may wrap what a signal raised into an error of its own.
        interrupted = isinstance(error, KeyboardInterrupt) or signal.SIGINT in _signals
        if isinstance(error, SystemExit) or not (interrupted or _signals):
            raise
        import os

        if interrupted:
            os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED if interrupted else TERMINATED)
    sys.exit(code)


def _stopped(number: int, frame: FrameType | None) -> None:
    """Raises what a signal asks for, but not where a compiled module is imported: it may crash on it."""
    import signal

    while frame is not None:
        if frame.f_code.co_qualname.startswith("ExtensionFileLoader."):
            _again(number)
            return
        frame = frame.f_back
    _signals.append(number)
    if number == signal.SIGTERM:
        raise SystemExit(TERMINATED)
    raise KeyboardInterrupt


def _unraisable(ignored: UnraisableHookArgs) -> None:
    """What the interpreter cannot raise where it happened; a signal there comes again a little later."""
    import signal
    import sys

    if issubclass(ignored.exc_type, KeyboardInterrupt):
        _again(signal.SIGINT)
    elif issubclass(ignored.exc_type, SystemExit) and signal.SIGTERM in _signals:
        _again(signal.SIGTERM)
    else:
        sys.__unraisablehook__(ignored)


def _again(number: int) -> None:
    """Sends a signal once more in a hundredth of a second."""
    import _thread
    import threading

    threading.Timer(0.01, _thread.interrupt_main, (number,)).start()
