"""The command ``antithetic``: the paper's experiments, and pairing, comparing, training and predicting without Python.

``antithetic --help`` shows what it can do, and ``antithetic COMMAND --help`` how, with examples.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_MISSING = 'The command needs typer and rich, which are not installed: pip install "antithetic[cli]"'
_INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 when all went well, 1 on an error, 2 when it was called wrongly, 130 on Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, default=None
        What follows ``antithetic`` on the command line; None means that of this process.
    """
    try:
        import rich  # noqa: F401 - typer can do without, our tables cannot
        import typer  # noqa: F401
    except ImportError:
        print(_MISSING, file=sys.stderr)
        sys.exit(1)
    try:
        from antithetic._cli.app import app

        app(None if arguments is None else list(arguments), prog_name="antithetic")
    except KeyboardInterrupt:  # while still importing
        sys.exit(_INTERRUPTED)
