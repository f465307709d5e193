"""The command line. This file needs nothing but the standard library, so that it can say what is missing."""

import os
import sys


def main() -> None:
    """Run the `drawahead` command."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit("drawahead: the command line needs typer and rich: pip install 'drawahead[cli]'")
    try:
        from drawahead.cli.app import run
        from drawahead.cli.building import unfinished
        from drawahead.cli.interrupts import listen

        listen()
    except KeyboardInterrupt:  # importing takes a second or two
        sys.exit(130)
    status = run(sys.argv[1:])
    if unfinished():  # after Ctrl-C: a thread that is deep in a library would hold the end up
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)
