"""`zoo-bench smoke`: train a published row of seconds again, and say whether it is equal."""

from __future__ import annotations

import click

from benchmark.cli.options import say


@click.command("smoke")
def command() -> int:
    """Train a published row again, in seconds, and print whether it is equal: zoo-mini, 512 sentences, float32.

    Exits 1 where the score differs by more than 0.05. On the machine of the published row all cosines are equal too.
    """
    from benchmark.smoke import smoke

    outcome = smoke()
    say(outcome.text)
    return 0 if outcome.equal else 1
