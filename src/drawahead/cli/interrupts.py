"""Ctrl-C is heard while the main thread is deep in a library: Python would wait until that returns, for minutes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType

from drawahead.cli.saying import INTERRUPTED

_PATIENCE = 1.0  # seconds for the main thread to notice by itself


def listen() -> None:
    """From now on, end the process if the main thread does not hear Ctrl-C. What is finished and kept is in files."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # such as one that ignores it: not ours to change
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    heard = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        heard.set()
        signal.default_int_handler(number, frame)

    def wait() -> None:
        while number := reader.recv(1):
            if number[0] == signal.SIGINT and not heard.wait(_PATIENCE):
                os.write(2, b"drawahead: interrupted\n")
                os._exit(INTERRUPTED)
            heard.clear()

    signal.signal(signal.SIGINT, hear)
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    threading.Thread(target=wait, daemon=True).start()
