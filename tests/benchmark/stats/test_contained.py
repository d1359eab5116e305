"""Each output with an interval, a p-value or a mark says of each noise that it is contained, or why not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from fakes import Cli, make_record
from scipy.stats import spearmanr

from benchmark.checking.diff import diff
from benchmark.interop.second_opinion import second_opinion
from benchmark.records.folder import Records
from benchmark.report.table import read_completed
from benchmark.stats.contained import contained
from choose.adaptation import Adaptation
from choose.choice import Choice, choose
from choose.data import arranged, read_texts
from choose.ranking import ranked, verdict
from choose.shown import _word, drawn
from zoo_bench_papers import picture
from zoo_bench_papers.claims import all_claims
from zoo_bench_papers.ledger import markdown, noise
from zoo_bench_papers.verdicts import verdicts

STATED = re.compile(
    r"Noise of (?:pairs|items|queries|texts|tasks): contained; of seeds: (?:contained|not contained \(.+?\));"
    r" of tuning: (?:contained|not contained \(.+?\))\."
)


def test_the_words_are_those_of_one_function() -> None:
    for seeds in ("", "one training"):
        for tuning in ("", "one study"):
            assert STATED.fullmatch(contained("pairs", seeds=seeds, tuning=tuning))


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("seeds", [1, 2])
def test_tables_and_comparisons_say_it(seeds: int, cli: Cli, tmp_path: Path) -> None:
    words = ("--tasks", "pocket-words,pocket-pairs", "--results", tmp_path, "--backbone", "zoo-mini")
    assert cli("run", "--methods", "bag,random,cls,avg-last", "--seeds", seeds, *words).code == 0
    outputs = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.glob("pocket.*")}
    outputs |= {"page": (tmp_path / "index.html").read_text(encoding="utf-8")}
    outputs |= {"terminal": cli("leaderboard", "--results", tmp_path).out}
    outputs |= {"baseline": cli("leaderboard", "--results", tmp_path, "--baseline", "random").out}
    outputs |= {"compare": cli("compare", "bag", "random", "--results", tmp_path).out}
    outputs |= {"compare, as json": cli("compare", "cls", "avg-last", "--results", tmp_path, "--json").out}
    outputs |= {"ablation": cli("ablation", "cls", "avg-last", "bag", "--results", tmp_path).out}
    outputs |= {"ablation, as json": cli("ablation", "cls", "avg-last", "--results", tmp_path, "--json").out}
    assert len(outputs) > 9
    lacking = [
        name
        for name, text in outputs.items()
        if not STATED.search(" ".join(text.split())) and not name.endswith((".csv", "-published.md", "-cost.md"))
    ]
    assert not lacking
    alone = "of seeds: not contained (one training)" in " ".join(outputs["compare"].split())
    assert alone is (seeds == 1)
    of_none = json.loads(outputs["compare, as json"])["noise"]
    assert "of seeds: not contained (no row depends on a seed)" in of_none


@pytest.mark.parametrize("seeds", [(None,), (0, 1)])
def test_a_diff_says_it(seeds: tuple[int | None, ...], tmp_path: Path) -> None:
    gold = np.random.default_rng(0).uniform(size=60)
    for folder, spread in (("a", 0.1), ("b", 0.5)):
        for seed in seeds:
            predicted = gold + spread * np.random.default_rng(seed).normal(size=60)
            main = float(spearmanr(predicted, gold).statistic)
            Records(tmp_path / folder).write(make_record("m", "MEN", seed, main=main), (predicted, gold))
    moved = diff(tmp_path / "a", tmp_path / "b")
    assert (stated := STATED.search(str(moved))) is not None and moved.as_dict()["noise"] == stated[0]
    assert ("no row depends on a seed" in stated[0]) is (seeds == (None,))
    assert diff(tmp_path / "a", tmp_path / "a").noise == ""


@pytest.mark.parametrize("condition", ["zoo-small, bf16, tuned (12 trials on MEN)", "zoo-small, bf16"])
def test_claims_say_it_in_the_terminal_and_on_the_page(condition: str) -> None:
    stated = STATED.fullmatch(noise(condition))
    assert stated is not None and ("a tuned row is of one study" in stated[0]) is ("tuned" in condition)


@pytest.mark.parametrize("table", sorted((Path(__file__).parents[3] / "leaderboards").glob("*/*.md")), ids=str)
def test_published_tables_with_marks_say_it(table: Path) -> None:
    text = " ".join(table.read_text(encoding="utf-8").split())
    assert "≈" not in text or STATED.search(text)


def test_second_opinions_say_it(tmp_path: Path) -> None:
    frame = pandas.DataFrame(np.random.default_rng(3).random((3, 6)), ["a", "b", "c"], [f"t{i}" for i in range(6)])
    for file in second_opinion(frame).write(tmp_path):
        text = " ".join(file.read_text(encoding="utf-8").split())
        assert STATED.search(text) or file.suffix == ".csv", file


def test_both_pictures_of_claims_say_it() -> None:
    source = Path(picture.__file__).read_text(encoding="utf-8")
    assert len(re.findall(r"set_xlabel\(.*(?:noise|contained\()", source)) == source.count("set_xlabel") == 2


def test_the_ledger_of_claims_says_it_of_each_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = next(claim for claim in all_claims() if claim.id == "ptbert-above-simcse-sts")
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (claim,))
    store = Records(Path(__file__).parents[3] / "leaderboards/zoo-small-tuned")
    text = markdown(verdicts(store.folder, store, read_completed(store)))
    parts = text.split("\n## ")[1:]
    conditions = [part for part in parts if not part.startswith(("What tuning", "Not measured"))]
    assert len(conditions) > 1
    for part in conditions:
        stated = STATED.search(part)
        assert stated is not None, part[:80]
        assert ("a tuned row is of one study" in stated[0]) is ("tuned (" in part.splitlines()[0])


@pytest.mark.parametrize("seeds", [1, 3])
def test_adapt_says_it(seeds: int) -> None:
    data = arranged(read_texts(TABLE, None, None))
    row = {"score": 60.0, "gain": 5.0, "gain_low": 3.0, "gain_high": 7.0, "p": 0.01, "needed": np.nan, "seeds": seeds}
    rest = ("change", "change_low", "change_high", "seconds", "parameters", "development", "updates")
    frame = pandas.DataFrame([{**dict.fromkeys(rest, np.nan), **row, "may_be_best": True}])
    frame.index = pandas.Index(["simcse"], name="name")
    adaptation = Adaptation(frame, data, data, "zoo-mini", [], {})
    for text in (adaptation.shown(), adaptation.as_dict()["noise"]):
        stated = STATED.search(text)
        assert stated is not None and ("one training" in stated[0]) is (seeds == 1)


TABLE = pandas.DataFrame(
    {
        "a": [f"the {i} small dogs of street {i % 7}" for i in range(40)],
        "b": [f"dog {i % 5} in street {i % 7}" for i in range(40)],
        "score": [(3 * i) % 11 / 2 for i in range(40)],
    }
)


@pytest.fixture(scope="module")
def choice() -> Choice:
    return choose(TABLE, ["static-contrastive:positives=halves", "bag-of-words", "cls"], quiet=True)


@pytest.mark.slow
def test_choose_gives_no_mark_to_one_training(choice: Choice) -> None:
    once = "static-contrastive:positives=halves"
    assert choice.frame["one_training"].to_dict() == {once: True, "bag-of-words": False, "cls": False}
    assert not choice.frame["may_be_best"][once] and once not in choice.ranking.tied
    assert f"of seeds: not contained (one training of {once})" in choice.verdict
    assert f"{once}: trained once, so without a mark" in choice.verdict
    assert f"`zoo-bench run --methods {once} --seeds 3`" in choice.verdict
    assert STATED.search(choice.verdict) and choice.as_dict()["noise"] == choice.noise


@pytest.mark.parametrize("place", [0, 1])
def test_the_plot_of_choose_says_it_and_marks_no_row_that_was_trained_once(place: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    row = {"score": 60.0, "low": 55.0, "high": 65.0, "texts_per_second": 1.0, "over_budget": "", "may_be_best": False}
    frame = pandas.DataFrame([{**row, "one_training": i == place} for i in (0, 1)], ["a", "b"])
    words = [_word(i, of) for i, (_, of) in enumerate(frame.iterrows())]
    assert [word == "trained once: no mark" for word in words] == [i == place for i in (0, 1)]
    drawn(frame, "score", tmp_path / "a.png", contained("pairs"))
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_a_winner_that_was_trained_once_beats_nobody(place: int, choice: Choice) -> None:
    """Nor does one that a baseline of one training stands beside."""
    rng = np.random.default_rng(place)
    gold = choice.data.gold
    values = [np.array([gold + rng.normal(0, noise, len(gold))]) for noise in (0.01, 3.0)]
    rows = [{"name": str(i), "encoder": str(i), "bytes": 1, "one_training": i == place} for i in (0, 1)]
    rows = [{**row, "texts_per_second": 1.0, "finished": False} for row in rows]
    of_rows = [values[0], values[1]]
    ranking = ranked(choice.data, of_rows, rows, baseline="1")
    assert ranking.winner == "0" and ranking.beaten is False and not ranking.tied
    sentences = verdict(choice.data, ranking, (), ())
    assert "No other is tied" not in sentences and f"zoo-bench run --methods {place} --seeds 3" in sentences
    assert f"0 is not shown to be better than the baseline 1 beyond noise: {place} trained once." in sentences
    both = ranked(choice.data, of_rows, [{**row, "one_training": False} for row in rows], baseline="1")
    assert both.beaten is True and "No other is tied" in verdict(choice.data, both, (), ())
