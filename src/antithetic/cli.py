"""The command ``antithetic``: reproduce the paper, and pair, compare, train and predict.

``antithetic --help`` shows what it can do, and ``antithetic COMMAND --help`` how, with examples.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

_MISSING = (
    'The command needs typer and rich, which are not installed: pip install "antithetic[cli]"'
)
_INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 on success, 1 on an error, 2 on wrong usage, 130 on Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, default=None
        What follows ``antithetic`` on the command line; None means that of this process.
    """
    _never_fail_to_encode()
    try:
        import rich  # noqa: F401 - typer can do without, our tables cannot
        import typer  # noqa: F401 - only whether it is there
    except ImportError:
        print(_MISSING, file=sys.stderr)
        sys.exit(1)
    try:
        from antithetic._cli.app import app

        app(None if arguments is None else list(arguments), prog_name="antithetic")
    except KeyboardInterrupt:  # while still importing
        sys.exit(_INTERRUPTED)
    except OSError as error:  # help that could not be written
        from antithetic._cli.guard import forget_output

        forget_output()
        print(f"error: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)


def _never_fail_to_encode() -> None:
    """Show a question mark for what a terminal, or a pipe in another encoding, cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
