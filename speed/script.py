"""Runs the scripts of this folder and reports their errors."""

from __future__ import annotations

import sys

import click

from zoo.errors import ZooError


def run(command: click.Command) -> None:
    """Run a script's command; an expected error becomes one sentence on standard error and a non-zero exit code."""
    try:
        command()
    except ZooError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
