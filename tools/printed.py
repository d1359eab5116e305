"""Blocks of a terminal on pages, made by the command that they show; only times stay as the page has them."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas

from benchmark.report.terminal import folded
from choose.data import Texts, read_texts
from choose.shown import table_lines

PAGE = Path(__file__).parents[1] / "docs/tutorials/choose.md"
WIDTH = 80
TIMES = ("ms_p50", "ms_p95", "texts_per_second")


@functools.cache
def _choice() -> tuple[str, Texts, dict[str, Any]]:
    """Return the tutorial's command, its table, and what it prints as JSON, on the reader's backbone."""
    page = PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r'```csv title="my.csv"\n(.*?)```', page, re.S)
    (command, *_) = re.findall(r"^zoo-bench (choose my\.csv .+)$", page, re.M)
    reader = {name: value for name, value in os.environ.items() if name != "ZOO_BENCH_BACKBONE"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "my.csv"
        path.write_text(table, encoding="utf-8")
        words = [sys.executable, "-m", "benchmark.cli.main", *shlex.split(command), "--device", "cpu", "--json"]
        output = subprocess.run(words, cwd=folder, env=reader, check=True, capture_output=True, text=True).stdout
        return command, read_texts(path), json.loads(output)


def choose(shown: str) -> str:
    """Return the block of `choose`: its table, with the times of the block that is there."""
    command, data, choice = _choice()
    rows = choice["rows"]
    times = re.findall(r"\]\D*[\d.]+ +([\d.,]+) +[\d.,]+ +([\d.,]+)(?: +([\d.,]+))?$", shown, re.M)
    if len(times) == len(rows):
        known = [[float(value.replace(",", "")) for value in values if value] for values in times]
        rows = [row | dict(zip(TIMES, values, strict=False)) for row, values in zip(rows, known, strict=True)]
    lines = table_lines(data, pandas.DataFrame(rows).set_index("name"), WIDTH)
    # The last line names columns that are not shown.
    table = "\n".join(line.rstrip() for line in lines if not line.startswith("--wide"))
    return f"```text\n$ zoo-bench {command}\n{table}\n```"


def verdict(shown: str) -> str:
    """Return the last lines of `choose`, as wide as most terminals are, with the fastest of the block that is there."""
    fastest = re.search(r"The fastest of them is \S+\.", " ".join(shown.split()))
    text = _choice()[2]["verdict"]
    if fastest is not None:
        text = re.sub(r"The fastest of them is \S+\.", fastest[0], text)
    return "\n".join(["```text", *folded([text], WIDTH), "```"])
