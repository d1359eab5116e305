"""python -m tests.torture: kills, processes, disk, flips, bulk, plugins, fuzz. Exit code 1 when one did not hold."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run one torture."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Try to break zoo-bench.")
    commands = parser.add_subparsers(dest="what", required=True)
    for name, help_text, count in (
        ("kills", "SIGKILL at random instants, also between any two file operations", 200),
        ("processes", "several processes on one folder, some of them killed", 20),
        ("disk", "a full disk at so many sizes", 50),
        ("flips", "one flipped bit in any file that is read", 2000),
        ("bulk", "files of so many hostile rows, and small ones that unpack to gigabytes, within 2 GB", 1_000_000),
        ("plugins", "methods that misbehave, between two that do not", 300),
        ("fuzz", "so many inputs that are nearly right for every reader", 20000),
    ):
        one = commands.add_parser(name, help=help_text)
        one.add_argument("count", type=int, nargs="?", default=count)
        one.add_argument("--seed", type=int, default=0)
        if name in ("flips", "fuzz"):
            one.add_argument("--only", help="only what has this in its name (fuzz: or one of these, a,b,c)")
        if name == "fuzz":
            one.add_argument("--part", default="1/1", help="2/4: the second quarter of the readers")
            one.add_argument("--minutes", type=float, default=1e9, help="end after so many, slow readers last")
    options = parser.parse_args(arguments)
    if options.what == "kills":
        from tests.torture.kills import kills

        return kills(options.count, options.seed)
    if options.what == "processes":
        from tests.torture.processes import processes

        return processes(options.count, options.seed)
    if options.what == "disk":
        from tests.torture.disk import disk

        return disk(options.count, options.seed)
    if options.what == "bulk":
        from tests.torture.bulk import bulk

        return bulk(options.count, options.seed)
    if options.what == "plugins":
        from tests.torture.plugins import plugins

        return plugins(options.count, options.seed)
    if options.what == "fuzz":
        from tests.torture.fuzz import fuzz

        return fuzz(options.count, options.seed, options.only, options.part, options.minutes)
    from tests.torture.flips import flips

    return flips(options.count, options.seed, options.only)


if __name__ == "__main__":
    sys.exit(main())
