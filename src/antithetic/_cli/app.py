"""All commands together, and their help texts."""

from __future__ import annotations

import os
from inspect import cleandoc
from typing import Annotated

import typer

from antithetic._cli.compare import compare
from antithetic._cli.pair import pair
from antithetic._cli.predict import predict
from antithetic._cli.reproduce import reproduce
from antithetic._cli.train import train
from antithetic._util.versions import describe_kernels, package_version

_HELP = """Linear models that train faster, by choosing which rows to use together and in which \
order.

[bold]See whether the paper's claims hold[/bold], in a report to open in a browser:

  antithetic reproduce

[bold]See whether it would help on your own data[/bold] (CSV, TSV, SVMlight, Parquet, npz):

  antithetic compare flowers.csv --target species

[bold]Train and predict without Python[/bold]:

  antithetic train flowers.csv --model flowers.json
  antithetic predict flowers.json new-flowers.csv --out predictions.csv
"""
_EPILOG = (
    "Each command has its own --help, with examples, and --json for machines. `antithetic"
    " --install-completion` completes on Tab."
)


def flowing(docstring: str) -> str:
    """Join each paragraph of a docstring into one line, so that the terminal can wrap it.

    Examples keep their lines.
    """
    paragraphs = cleandoc(docstring).split("\n\n")
    return "\n\n".join(text if "\n  " in text else " ".join(text.split()) for text in paragraphs)


app = typer.Typer(
    name="antithetic",
    help=_HELP,
    epilog=_EPILOG,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (reproduce, compare, pair, train, predict):
    app.command(help=flowing(_command.__doc__ or ""), no_args_is_help=_command is not reproduce)(
        _command
    )

if os.environ.get("NO_COLOR"):
    import typer.rich_utils

    typer.rich_utils.COLOR_SYSTEM = None  # typer alone would leave bold and dim


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"antithetic {package_version()} (kernels: {describe_kernels()})")
        raise typer.Exit


@app.callback()
def _begin(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Handle the options before a command."""
