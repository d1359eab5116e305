"""What a run was given lies in its results folder, where every reader of results finds it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from fakes import Cli

METHOD = """
from fakes import Bag
from zoo import register_method

@register_method("own-bag")
class OwnBag(Bag):
    '''A bag of words.'''
"""
SUITE = "title: Own words\ntasks: [pocket-words, pocket-pairs]\ncolumns: [W, P]\nnote: two tasks\n"


@pytest.mark.slow
def test_every_reader_knows_the_recipes_and_suites_of_a_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    files = {
        "bag.py": METHOD,
        "one.yaml": "extends: own-bag\nparameters: {salt: 2}\n",
        "two.yaml": "extends: one\nparameters: {salt: 3}\n",
        "own-words.yaml": SUITE,
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    words = "--plugin bag.py --suite own-words.yaml --precision fp32 --limit 20 --no-controls --results out".split()
    done = cli("run", "--methods", "two.yaml,own-bag", *words)
    assert done.code == 0, done.err
    printed = next(line for line in done.out.splitlines() if line.startswith("Next, task by task: "))
    assert cli(*shlex.split(printed.partition("zoo-bench ")[2])).code == 0, printed
    # Another content under one name, and no file any more: both rows are still known.
    Path("two.yaml").write_text("extends: one\nparameters: {salt: 4}\n", encoding="utf-8")
    assert cli("run", "--methods", "two.yaml", *words).code == 0
    for name in filter(lambda name: name.endswith(".yaml"), files):
        Path(name).unlink()
    plugin = ("--plugin", "bag.py")
    verified = cli("verify", out, *plugin)
    assert verified.code == 0, verified.out
    assert "6 cells: 6 verified" in verified.out
    assert json.loads((out / "given" / "plugins.json").read_text(encoding="utf-8")).keys() == {"bag.py"}
    assert "Own words" in cli("leaderboard", "--results", out, *plugin).out
    for words in (("leaderboard", "--suite", "own-words"), ("cite", "--suite", "own-words")):
        answer = cli(*words, "--results", out, *plugin)
        assert answer.code == 0, answer.err
    assert cli("pack", "--results", out, *plugin).code == 0
    assert cli("verify", out, *plugin).code == 0
