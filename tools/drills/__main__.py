"""python -m tools.drills kills|processes|nodes|cluster|disk|flips [COUNT]: tries to break it; exit code 1 if it did."""

from __future__ import annotations

import argparse

from tools.drills.disk import disk
from tools.drills.flips import flips
from tools.drills.kills import kills
from tools.drills.nodes import cluster, nodes
from tools.drills.processes import processes

KILLS = {"run": 200, "pretrain": 50, "pack": 50, "leaderboard": 50}
COUNTS = {"processes": 20, "disk": 8, "flips": 2000, "nodes": 10}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.drills", description="Try to break zoo-bench.")
    parser.add_argument("what", choices=("kills", "cluster", *COUNTS))
    parser.add_argument("count", type=int, nargs="?", help=f"by default {KILLS | COUNTS}")
    parser.add_argument("--of", choices=KILLS, action="append", help="what is killed; by default all of them")
    parser.add_argument(
        "--only", help="flips: files of a kind with this in its name; disk: commands, nodes: ways, with commas"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "kills":
        raise SystemExit(kills({what: options.count or KILLS[what] for what in options.of or KILLS}, options.seed))
    if options.what == "cluster":
        raise SystemExit(cluster())
    count = options.count or COUNTS[options.what]
    if options.what == "flips":
        raise SystemExit(flips(count, options.seed, options.only))
    if options.what == "disk":
        raise SystemExit(disk(count, options.seed, options.only.split(",") if options.only else ()))
    if options.what == "nodes":
        raise SystemExit(nodes(count, options.only.split(",") if options.only else ()))
    raise SystemExit(processes(count, options.seed))
