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
    say_json,
    say_prose,
)


@click.command("verify")
@click.argument("folder", type=PATH)
@data_option
@click.option("--no-encode", is_flag=True, help="Encode nothing again: compare scores and gold scores alone.")
@click.option("--allow-unverified", is_flag=True, help="Exit 0 where nothing differs and something is not verifiable.")
@click.option("--fetch", is_flag=True, help="Fetch data and models from the hub; its senders name the models.")
@device_option
@plugin_option
@json_option
def command(
    folder: Path,
    data: str | None,
    no_encode: bool,
    allow_unverified: bool,
    fetch: bool,
    device: str,
    plugins: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Compute every score of FOLDER again from what it keeps and from the data here, and encode its pairs again.

    Each cell is verified, differs, or is not verifiable, with the reason. Exits 0 only where every cell is verified.
    """
    from benchmark.analysis.verify import verify

    load_plugins(plugins)
    verified = verify(folder, data, encode=not no_encode, device=device, fetch=fetch)
    say_json(asdict(verified)) if as_json else say_prose(str(verified))
    return verified.exit_code(allow_unverified=allow_unverified)
