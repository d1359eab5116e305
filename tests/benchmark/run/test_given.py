"""What a run was given lies in its results folder, where every reader of results finds it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from fakes import Cli

from zoo.plugins import METHODS

METHOD = """
from fakes import Bag
from zoo import register_method

@register_method("own-bag")
class OwnBag(Bag):
    '''A bag of words.'''
"""
PAPER = """paper: SaltBag
citation: {name: SaltBag, title: Bags with salt, authors: A. Author, year: 2021, url: "https://example.org/salt"}
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
        "one.yaml": f"extends: own-bag\ncontrol: true\n{PAPER}parameters: {{salt: 2}}\n",
        "two.yaml": "extends: one\nparameters: {salt: 3}\n",
        "own-words.yaml": SUITE,
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    words = "--plugin bag.py --suite own-words.yaml --precision fp32 --no-controls --results out".split()
    done = cli("run", "--methods", "one.yaml,two.yaml,own-bag", *words)
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
    assert "8 cells: 8 verified" in verified.out
    assert "Own words" in cli("leaderboard", "--results", out, *plugin).out
    results = ("--results", out)
    assert cli("diff", out, out, *plugin).code == 0
    assert cli("compare", "one.yaml", "own-bag", *results).code == 0
    for named in (plugin, ()):
        if not named:
            monkeypatch.delitem(METHODS._entries, "own-bag")
        # A recipe of the folder is a control, and is cited, whether its plugin is here or not.
        table = json.loads(cli("leaderboard", "--suite", "own-words", "--json", *results, *named).out)["tables"][0]
        assert {row["method"]: row["control"] for row in table["rows"]}["one"] == "control"
        assert "Bags with salt" in cli("cite", "--suite", "own-words", *results, *named).out
        assert cli("pack", *results, *named).code == 0
    assert "unknown method 'own-bag'. Its run had --plugin bag.py." in cli("verify", out).out
