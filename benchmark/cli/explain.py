"""`zoo-bench explain KEY KEY`: how two measured cells differ. Imports no torch."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.options import json_option, results_option, say, say_json


@click.command("explain")
@click.argument("first", metavar="KEY")
@click.argument("second", metavar="KEY")
@results_option
@json_option
def command(first: str, second: str, results: Path, as_json: bool) -> None:
    """Say in words how two measured cells differ: what of it is in their keys, and why, and what is not.

    KEY is the start of a cell's key (`key` in its record), or of a row's or encoder's (`row_key`, `encoder_key`).
    """
    from benchmark.records.explain import differences, record_with
    from benchmark.records.store import Records

    records = Records(results).all()
    (a, one), (b, other) = record_with(records, first), record_with(records, second)
    found = differences(a, b, one and other)
    if as_json:
        say_json(found)
        return
    for key, record, cell in ((first, a, one), (second, b, other)):
        seed = "" if record["seed"] is None else f", seed {record['seed']}"
        say(f"{key}: {record['method']['name']}" + (f" on {record['task']['name']}{seed}" if cell else ""))
    for title, lines in (("Different in their keys", found["in_keys"]), ("Different, and in no key", found["beside"])):
        say(f"{title}:" if lines else f"{title}: nothing.")
        for line in lines:
            say(f"  {line}")
