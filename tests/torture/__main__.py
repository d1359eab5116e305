"""python -m tests.torture [COUNT] [--of WHAT]: kill so often; exits with 1 if something was lost."""

from __future__ import annotations

import argparse

from tests.torture.kills import kills

COUNTS = {"run": 200, "pretrain": 50, "pack": 50, "leaderboard": 50}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Kill zoo-bench at any instant.")
    parser.add_argument("count", type=int, nargs="?", help=f"by default {COUNTS}")
    parser.add_argument("--of", choices=COUNTS, action="append", help="by default all of them")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    raise SystemExit(kills({what: options.count or COUNTS[what] for what in options.of or COUNTS}, options.seed))
