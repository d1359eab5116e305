"""`zoo-bench explain` says how two cells differ, from their records alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fakes import Cli, make_record

from benchmark.records.store import Records


def test_two_cells_are_told_apart_in_words(tmp_path: Path, cli: Cli) -> None:
    store = Records(tmp_path)
    first, second = make_record("a", seed=0), make_record("b", seed=1, main=0.25, row="other", precision="bf16")
    second["method"]["recipe"] = {**first["method"]["recipe"], "temperature": 0.1}
    second["code"] = {"commit": None, "digest": "1" * 64, "scorer": "2" * 64}
    for record in (first, second):
        store.write(record)

    def said(a: Any, b: Any, *more: str) -> str:
        answer = cli("explain", a, b, "--results", tmp_path, *more)
        assert answer.code == 0, answer.err
        return answer.out

    words = said(first["key"][:10], second["key"][:10])
    for line in (
        "  recipe.temperature: nothing and 0.1 (the settings, each as it was used)",
        "  precision: fp32 and bf16 (bf16 rounds vectors)",
        "  seed: 0 and 1 (the seed of a training)",
        "  code of the scorer: nothing and 222222222222",
        "  score: 0.5 and 0.25",
    ):
        assert line in words, line
    rows = json.loads(said(first["row_key"], second["key"], "--json"))
    assert not any("seed" in line or "score:" in line for part in rows.values() for line in part)
    assert "Different in their keys: nothing." in said(first["key"], first["key"])


def test_keys_that_nobody_has(tmp_path: Path, cli: Cli) -> None:
    record = make_record()
    Records(tmp_path).write(record)
    for key, words in (("zzzzzz", "no key begins with 'zzzzzz'"), ("abc", "at least 4 characters")):
        answer = cli("explain", key, record["key"], "--results", tmp_path)
        assert answer.code == 2 and words in answer.err
