"""`zoo-bench verify FOLDER`: whether somebody's results are what they say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from benchmark.cli.options import (
    PATH,
    data_option,
    device_option,
    json_option,
    load_plugins,
    plugin_option,
    say,
    say_json,
)


@click.command("verify")
@click.argument("folder", type=PATH)
@data_option
@click.option("--no-encode", is_flag=True, help="Encode nothing again.")
@device_option
@plugin_option
@json_option
def command(
    folder: Path, data: str | None, no_encode: bool, device: str, plugins: tuple[Path, ...], as_json: bool
) -> int:
    """Recompute every score of FOLDER from its pair scores and the data here; encode a sample again.

    Exits 1 where anything differs. What cannot be checked is counted with the reason.
    """
    from benchmark.analysis.verify import verify  # imports torch

    load_plugins(plugins)
    found = verify(folder, data, encode=not no_encode, device=device)
    say_json(asdict(found)) if as_json else say(str(found))
    return int(bool(found.differ))
