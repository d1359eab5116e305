"""`zoo-bench verify FOLDER`: do somebody's results hold here?"""

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
    results_by_place,
    results_of,
    say_json,
    say_prose,
)


@click.command("verify")
@results_by_place
@data_option
@click.option("--no-encode", is_flag=True, help="Encode nothing again: compare scores and gold scores alone.")
@click.option("--allow-unverified", is_flag=True, help="Exit 0 where nothing differs and something is not verifiable.")
@click.option("--fetch", is_flag=True, help="Fetch data and models from the hub; its senders name the models.")
@click.option(
    "--weights",
    type=PATH,
    multiple=True,
    help="A folder of weights that a run was given by a path; its sha256 decides. Repeat.",
)
@device_option
@plugin_option
@json_option
def command(
    folder: Path | None,
    results: Path | None,
    data: str | None,
    no_encode: bool,
    allow_unverified: bool,
    fetch: bool,
    weights: tuple[Path, ...],
    device: str,
    plugins: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Make the statements of FOLDER's records again here, and compare: keys, names, training, scores and cosines.

    Each cell is verified, differs, or is not verifiable, failed or missing, with the reason. Exits 0 only if every cell
    is verified.
    """
    from benchmark.checking.verify import verify

    load_plugins(plugins)
    verified = verify(
        results_of(folder, results), data, encode=not no_encode, device=device, fetch=fetch, weights=weights
    )
    say_json(asdict(verified)) if as_json else say_prose(str(verified))
    return verified.exit_code(allow_unverified=allow_unverified)
