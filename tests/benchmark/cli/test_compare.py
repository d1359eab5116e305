"""The command compare, with texts and without."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from scipy import stats

from benchmark.api import compare
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import scored_pairs
from benchmark.stats.bootstrap import influences
from benchmark.stats.clusters import clusters_of
from benchmark.stats.compare import williams
from benchmark.stats.draws import FLOORS
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.overlap import keys, numbered
from zoo.files import read_json, sha256_json

# `zoo-bench compare`: the numbers of both methods, their differences as scipy has them, and what it refuses.

TASKS = ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS")
SIZES = dict(zip(TASKS, (90, 60, 70, 120, 80), strict=True))
GOLD = {task: np.round(np.random.default_rng(n).uniform(0, 5, n), 1) for task, n in SIZES.items()}


def scores_of(name: str, task: str, seed: int | None) -> np.ndarray:
    """Return a method's scores as they are kept."""
    noise = {"good": 1.0, "bad": 2.0, "same": 1.0}[name]
    generator = np.random.default_rng([seed or 0, SIZES[task], name == "bad"])
    return np.float32(GOLD[task] + noise * generator.normal(size=SIZES[task]))


def rho(a: np.ndarray, b: np.ndarray) -> float:
    return float(stats.spearmanr(a, b).statistic)


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A method of two seeds and two without one, on the suite `words`; pairs are kept."""
    folder = Records(tmp_path)
    for name, seeds in (("good", (0, 1)), ("bad", (None,)), ("same", (None,))):
        for task, seed in itertools.product(TASKS, seeds):
            predicted = scores_of(name, task, seed)
            main = rho(predicted, GOLD[task])
            folder.write(make_record(name, task, seed, main=main), (predicted, GOLD[task]))
    return folder


def compared(cli: Cli, *words: object) -> Any:
    answer = cli("compare", *words, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out, parse_constant=pytest.fail)


@pytest.mark.slow
def test_numbers_against_scipy(store: Records, cli: Cli) -> None:
    """Means over seeds; noise of pairs as 400 resamples have it, of seeds as their variance; Williams' test."""
    content = compared(cli, "good", "bad", "--results", store.folder)
    (comparison,) = content["comparisons"]
    assert [line["task"] for line in comparison["lines"]] == list(TASKS)
    assert (content["a"].split()[0], content["b"].split()[0]) == ("good", "bad")
    assert content["seeds"] == {"a": "several", "b": "none"}
    generator = np.random.default_rng(0)
    drawn, of_seeds = [], []
    for line in comparison["lines"]:
        task = line["task"]
        gold, b = GOLD[task], scores_of("bad", task, None)
        good = [scores_of("good", task, seed) for seed in (0, 1)]
        by_seed, r_b = [rho(a, gold) for a in good], rho(b, gold)
        r_a = float(np.mean(by_seed))
        assert (line["a"], line["b"], line["pairs"]) == (pytest.approx(100 * r_a), pytest.approx(100 * r_b), len(gold))
        assert line["difference"] == pytest.approx(100 * (r_a - r_b))
        test = williams(r_a, r_b, float(np.mean([rho(a, b) for a in good])), len(gold))
        assert line["williams"]["t"] == pytest.approx(test.t)
        assert line["williams"]["p"] == pytest.approx(test.p)
        index = generator.integers(0, len(gold), (400, len(gold)))
        drawn.append([np.mean([rho(a[i], gold[i]) for a in good]) - rho(b[i], gold[i]) for i in index])
        of_seeds.append(by_seed)
        _expected(line, 100 * np.std(drawn[-1], ddof=1), 100 * np.array(by_seed))
    average = comparison["average"]
    for side in "ab":
        assert average[side] == pytest.approx(np.mean([line[side] for line in comparison["lines"]]))
    _expected(average, 100 * np.mean(drawn, axis=0).std(ddof=1), 100 * np.mean(of_seeds, axis=0))
    assert average["williams"] is None


def _expected(line: dict[str, Any], pairs_error: float, by_seed: np.ndarray) -> None:
    """Welch's interval and p from both errors, that of the pairs being known to a tenth by 400 resamples."""
    stated = read_json(FLOORS).values()
    least = min(of[{"Avg.": "words"}.get(line["task"], line["task"])] for of in stated)
    seeds = max(by_seed.var(ddof=1), least**2) / len(by_seed)
    assert line["pairs_error"] == pytest.approx(pairs_error, rel=0.12)
    assert line["seeds_error"] == pytest.approx(np.sqrt(seeds))
    pairs = line["pairs_error"] ** 2
    share = seeds / (pairs + seeds)
    margin = (1 - share) * stats.t.ppf(0.975, line["pairs"] - 1) + share * stats.t.ppf(0.975, len(by_seed) - 1)
    df = line["df"]
    assert stats.t.ppf(0.975, df) == pytest.approx(margin)
    margin *= np.sqrt(pairs + seeds)
    assert (line["low"], line["high"]) == (
        pytest.approx(line["difference"] - margin),
        pytest.approx(line["difference"] + margin),
    )
    assert line["p"] == pytest.approx(2 * stats.t.sf(abs(line["difference"]) / np.sqrt(pairs + seeds), df))


def test_equal_scores_do_not_differ(store: Records, cli: Cli) -> None:
    """A method and itself: no difference, no interval, p is 1."""
    (comparison,) = compared(cli, "same", "same", "--results", store.folder, "--tasks", "MEN")["comparisons"]
    (line,) = comparison["lines"]
    assert (line["difference"], line["low"], line["high"], line["p"], line["williams"]["p"]) == (0, None, None, 1, 1)
    assert comparison["average"] is None


@pytest.mark.slow
def test_the_pairs_that_differ_most(cli: Cli, tmp_path: Path) -> None:
    """By the places of the means over seeds, against scipy's ranks; with their texts, or row numbers only."""
    store = Records(tmp_path)
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    pairs = scored_pairs(task, "test")
    n, generator = len(pairs), np.random.default_rng(1)
    seeds = {("one", 0): generator.normal(size=n), ("one", 1): generator.normal(size=n)}
    seeds["two", None] = generator.normal(size=n)
    for (name, seed), values in seeds.items():
        store.write(make_record(name, "pocket-pairs", seed), (values, pairs.gold))
    words = ("one", "two", "--results", tmp_path, "--tasks", "pocket-pairs", "--pairs", 5)
    lines = compared(cli, *words)["pairs"]["pocket-pairs"]
    places = {key: 100 * (stats.rankdata(np.float32(values)) - 0.5) / n for key, values in seeds.items()}
    off = (places["one", 0] + places["one", 1]) / 2 - places["two", None]
    order = np.argsort(-np.abs(off))[:5]
    assert [line["row"] for line in lines] == (order + 1).tolist()
    assert [line["difference"] for line in lines] == pytest.approx(off[order].tolist())
    assert [line["texts"] for line in lines] == [[pairs.first[i], pairs.second[i]] for i in order]
    assert [line["gold"] for line in lines] == pytest.approx(pairs.gold[order].tolist())
    shown, bare = cli("compare", *words).out, cli("compare", *words, "--no-texts").out
    assert all(f"row {i + 1}: A " in shown and f"row {i + 1}: A " in bare for i in order)
    assert all(pairs.first[i] in shown and pairs.first[i] not in bare for i in order)


def test_one_seed_has_no_p(store: Records, cli: Cli) -> None:
    """Trained once: no interval and no p in any form, and the output says why."""
    _once(store, "once", (0,))
    words = ("once", "bad", "--results", store.folder, "--tasks", "MEN")
    content = compared(cli, *words)
    (line,) = content["comparisons"][0]["lines"]
    assert content["seeds"]["a"] == "one"
    assert {line[name] for name in ("seeds_error", "df", "low", "high", "p", "williams")} == {None}
    shown = cli("compare", *words).out
    assert re.search(r"A: once \[\w+\], one seed: its noise is not known, .*run --seeds 3", shown)
    *_, row = [one.split() for one in shown.splitlines() if one.split()[:1] == ["MEN"]]
    assert row[-2:] == ["n/a", "n/a"]
    comparison = compare("once", "bad", results=store.folder, tasks="MEN")
    assert comparison.to_frame()[["Low", "High", "p", "Williams' p"]].isna().all(axis=None)


def test_the_noise_of_other_rows_is_borrowed(store: Records, cli: Cli) -> None:
    """The pooled variance of the rows of the same backbone that have seeds; without such rows there is none."""
    backbone = {"backbone": {"name": "small"}}
    _once(store, "once", (0,), backbone)
    words = ("once", "bad", "--results", store.folder, "--tasks", "MEN", "--borrow-seed-noise")
    (line,) = compared(cli, *words)["comparisons"][0]["lines"]
    assert line["p"] is None
    seeds = {"several": (1, 2), "more": (3, 4, 5)}
    for name, of_row in seeds.items():
        _once(store, name, of_row, backbone)
    _once(store, "elsewhere", (6, 7), {"backbone": {"name": "large"}})
    content = compared(cli, *words)
    (line,) = content["comparisons"][0]["lines"]
    by_row = [[100 * rho(scores_of("same", "MEN", seed), GOLD["MEN"]) for seed in of_row] for of_row in seeds.values()]
    pooled = (np.var(by_row[0], ddof=1) + 2 * np.var(by_row[1], ddof=1)) / 3
    assert line["seeds_error"] == pytest.approx(np.sqrt(pooled))
    assert line["low"] < line["difference"] < line["high"] and 0 < line["p"] < 1
    sentence = "one seed; in place of its noise stands the pooled variance over seeds of the 2 other trained rows"
    assert content["borrowed_seed_noise"]["a"].startswith(sentence) and sentence in cli("compare", *words).out


def _once(store: Records, name: str, seeds: tuple[int, ...], sources: Any = None) -> None:
    """Write records of MEN, by default without a backbone."""
    for seed in seeds:
        predicted = scores_of("same", "MEN", seed)
        record = make_record(name, "MEN", seed, main=rho(predicted, GOLD["MEN"]))
        store.write({**record, "method": {**record["method"], "sources": sources or {}}}, (predicted, GOLD["MEN"]))


@pytest.mark.slow
def test_shared_pairs_are_said(data_dir: Path, cli: Cli, tmp_path: Path) -> None:
    """STS-B's pairs of STS16 are drawn for both tasks: their average is less certain than from independent draws."""
    folder = Records(tmp_path)
    for task in load_tasks(["STS16", "STS-B"], DataSource(data_dir, hub=False), None):
        pairs = scored_pairs(task, "test")
        gold, salts = pairs.gold, [[ord(letter) for letter in "".join(sorted(key))] for key in keys(pairs)]
        for name, noise in (("a", 1.0), ("b", 1.5)):  # the same for the same pair, wherever it stands
            predicted = gold + [np.random.default_rng([len(name), int(2 * noise), *salt]).normal() for salt in salts]
            folder.write(make_record(name, task.name, main=rho(predicted, gold)), (predicted, gold))
    words = ("a", "b", "--results", tmp_path, "--tasks", "STS16,STS-B")
    (comparison,) = compared(cli, *words)["comparisons"]
    assert [line["shared"] for line in comparison["lines"]] == [285, 285]
    errors = [line["pairs_error"] for line in comparison["lines"]]
    assert comparison["average"]["pairs_error"] > 1.01 * np.hypot(*errors) / 2
    assert "Pairs of several tasks are drawn together: 285 of STS16, 285 of STS-B." in cli("compare", *words).out


def test_what_is_missing_is_said(store: Records, cli: Cli) -> None:
    """Unknown names, tasks not run, records of before, other pairs: one sentence and exit code of an error."""
    folder = store.folder
    gold = GOLD["MEN"][:50]
    store.write(make_record("cut", "MEN", main=0.9), (gold, gold))
    store.write(make_record("old", "MEN", main=0.9))
    store.write(failed(make_record("old", "SCWS"), "no data for SCWS here", "n/a"))
    accuracy = {"main": 0.9, "main_metric": "accuracy", "reason": None}
    for name in ("good", "bad"):
        for seed in (0, 1) if name == "good" else (None,):
            store.write(make_record(name, "MR", seed, scores=accuracy))
    for words, code, text in (
        (("goood", "bad"), 2, "Did you mean 'good'?"),
        (("good", "bad", "--suite", "words-more"), 1, "has no score of WS-353 (not run)"),
        (("good", "old", "--tasks", "SCWS"), 1, "no data for SCWS here"),
        (("good", "old", "--tasks", "MEN"), 1, "old on MEN: the record has no pair scores"),
        (("good", "cut", "--tasks", "MEN"), 2, "different pairs"),
        (("good", "cut"), 1, "left out"),
    ):
        answer = cli("compare", *words, "--results", folder)
        assert (answer.code, text in answer.err) == (code, True), answer.err
        assert answer.out == ""


def test_a_suite_with_an_accuracy_is_compared_on_its_pairs(tmp_path: Path, cli: Cli) -> None:
    """The pocket suite: three tasks of pairs and their average, and a word on the fourth."""
    store = Records(tmp_path)
    for name in ("good", "bad"):
        for task in ("pocket-pairs", "pocket-words", "pocket-phrases"):
            predicted = scores_of(name, "MEN", None)
            store.write(make_record(name, task, main=rho(predicted, GOLD["MEN"])), (predicted, GOLD["MEN"]))
        accuracy = {"main": 0.9, "main_metric": "accuracy", "reason": None}
        store.write(make_record(name, "pocket-topics", scores=accuracy))
    answer = cli("compare", "good", "bad", "--results", tmp_path, "--json")
    (pocket,) = json.loads(answer.out)["comparisons"]
    assert [line["task"] for line in pocket["lines"]] == ["pocket-pairs", "pocket-words", "pocket-phrases"]
    expected = [rho(scores_of(name, "MEN", None), GOLD["MEN"]) for name in ("good", "bad")]
    assert pocket["average"]["difference"] == pytest.approx(100 * (expected[0] - expected[1]))
    assert "pocket-topics not compared" in answer.err


def test_an_ablation_is_compared_seed_by_seed(tmp_path: Path, cli: Cli) -> None:
    """One setting changed: the noise of each seed is in both rows. Two settings, or other texts: independent seeds."""
    store = Records(tmp_path)
    generator = np.random.default_rng(3)
    noise = generator.normal(size=(3, SIZES["MEN"]))
    more = {"one": {"width": 65}, "two": {"width": 65, "depth": 2}, "base": {}}
    for name, seed in itertools.product(more, range(3)):
        predicted = GOLD["MEN"] + (1 + 0.2 * seed) * noise[seed]
        predicted[: len(more[name])] = 2.5
        record = make_record(name, "MEN", seed, main=rho(predicted, GOLD["MEN"]))
        record["method"]["recipe"] = {"width": 64, "depth": 1, **more[name]}
        store.write(record, (np.float32(predicted), GOLD["MEN"]))
    lines = {
        other: compared(cli, "base", other, "--tasks", "MEN", "--results", tmp_path)["comparisons"][0]["lines"][0]
        for other in ("one", "two")
    }
    assert [lines[name]["seed_by_seed"] for name in ("one", "two")] == [True, False]
    assert lines["one"]["seeds_error"] < 0.2 * lines["two"]["seeds_error"]
    assert lines["one"]["seeds_sd"][0] > 1
    text = cli("compare", "base", "two", "--tasks", "MEN", "--results", tmp_path).out
    assert "takes" in text and "seeds" in text.split("takes")[1]


@pytest.mark.parametrize(
    ("recipe", "environment", "paired", "words"),
    [
        ({"width": 65}, {}, True, "one setting changed (width), and were trained with the same seeds"),
        ({}, {}, True, "equal recipes: one method, measured twice"),
        ({}, {"gpu": "an H100"}, False, "equal recipes: one method, measured twice"),
        ({"width": 65}, {"gpu": "an H100"}, False, ""),
        ({"width": 65}, {"packages": {"torch": "3"}}, False, ""),
    ],
)
def test_rows_share_seeds_on_one_kind_of_machine(
    tmp_path: Path, cli: Cli, recipe: Any, environment: Any, paired: bool, words: str
) -> None:
    """What is said of it is measured: the mean correlation over the seeds of the folder's rows of that kind."""
    store = Records(tmp_path)
    generator = np.random.default_rng(3)
    noise, scores = generator.normal(size=(3, SIZES["MEN"])), {}
    for name, seed in itertools.product(("base", "other", "third"), range(3)):
        individual = generator.normal(size=SIZES["MEN"])
        predicted = GOLD["MEN"] + (1 + 0.2 * seed) * noise[seed] + 0.3 * individual
        record = make_record(name, "MEN", seed, main=rho(predicted, GOLD["MEN"]), training={"steps": 3})
        if name != "base":
            record["environment"] = {**record["environment"], **environment}
        record["method"]["recipe"] = {"width": 64, **(recipe if name == "other" else {})}
        scores[name, seed] = record["scores"]["main"]
        store.write(record, (np.float32(predicted), GOLD["MEN"]))
    words_of = ("base", "other", "--tasks", "MEN", "--results", tmp_path)
    assert compared(cli, *words_of)["comparisons"][0]["lines"][0]["seed_by_seed"] == paired
    text = " ".join(cli("compare", *words_of).out.split())
    assert words in text and "dropout" not in text and ("measured twice" in text) == (not recipe)
    of_rows = np.array([[scores[name, seed] for seed in range(3)] for name in ("base", "other", "third")])
    mean = np.corrcoef(of_rows)[np.triu_indices(3, 1)].mean()
    assert (f"over 3 such pairs of rows in this folder, seeds correlate by {mean:.2f} on average" in text) == paired


def test_a_tuned_row_beside_an_untuned_one_is_said() -> None:
    """Of two tuned rows nothing is said: they are compared like with like."""
    folder = Path(__file__).parents[3] / "leaderboards" / "zoo-small-tuned"
    for other, is_noted in (("ptbert-tokens", True), ("ptbert-tokens-tuned", False)):
        text = str(compare("simcse-tuned", other, results=folder, tasks="STS16"))
        assert ("Not like with like, A and B: tuned 12 trials on stsb-dev-disjoint against no;" in text) is is_noted


def _by_version(store: Records, name: str, versions: tuple[int, ...]) -> None:
    """Write a row on MEN, each seed measured by the version of the task that is named."""
    for seed, version in enumerate(versions):
        predicted = scores_of(name, "MEN", seed)
        record = make_record(name, "MEN", seed, main=rho(predicted, GOLD["MEN"]), code={"digest": f"{seed:064}"})
        record["task"]["version"] = version
        record["key"] = sha256_json([record["key"], version])
        store.write(record | {"command": ["zoo-bench", "run", "--methods", name]}, (predicted, GOLD["MEN"]))


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [((1, 1), (1, 1), ""), ((1, 2), (1, 1), "good"), ((1, 1), (1, 2), "bad"), ((2, 2), (1, 1), "good [")],
)
def test_rows_of_two_versions_are_not_compared(
    tmp_path: Path, cli: Cli, first: tuple[int, ...], second: tuple[int, ...], refused: str
) -> None:
    """Neither within a row nor between two; other code does not matter."""
    store = Records(tmp_path)
    _by_version(store, "good", first)
    _by_version(store, "bad", second)
    answer = cli("compare", "good", "bad", "--results", tmp_path, "--tasks", "MEN")
    assert (answer.code != 0) == bool(refused) and refused in answer.err
    assert ("measure it again: zoo-bench run --methods" in answer.err) == bool(refused)


# `compare` draws pairs that share a text together.


@pytest.mark.slow
def test_pairs_that_share_a_text_are_drawn_together(cli: Cli, tmp_path: Path) -> None:
    """Of a known task, of its first pairs, whose texts are read here, and of a task whose texts are nowhere."""
    store = Records(tmp_path)
    everywhere = DataSource(None, hub=False)
    effective, errors = {}, {}
    for name, limit in (("pocket-words", None), ("pocket-phrases", None), ("pocket-pairs", 40)):
        (task,) = load_tasks([name], everywhere, limit)
        pairs = scored_pairs(task, "test")
        texts = numbered([*zip(pairs.first, pairs.second, strict=True)])
        effective[name] = clusters_of(*texts.T).effective
        wrong = [np.random.default_rng(row).normal(size=texts.max() + 1) for row in range(2)]  # by text
        rows = [np.float32(pairs.gold + of_row[texts].sum(axis=1)) for of_row in wrong]
        apart = np.subtract(*influences(np.stack(rows), pairs.gold)[1])
        errors[name] = 100 * np.sqrt(apart @ apart) / len(apart), len(apart)
        for row, predicted in zip("ab", rows, strict=True):
            record = make_record(row, name, main=rho(predicted, pairs.gold)) | {"limit": limit}
            store.write(record, (predicted, pairs.gold))
    for row in "ab":
        predicted = scores_of("good" if row == "a" else "bad", "MEN", None)
        store.write(make_record(row, "MEN", main=rho(predicted, GOLD["MEN"])), (predicted, GOLD["MEN"]))
    words = ("a", "b", "--results", tmp_path, "--tasks")
    for name, expected in effective.items():
        (line,) = compared(cli, *words, name)["comparisons"][0]["lines"]
        assert line["unrelated"] == pytest.approx(expected)
        unrelated, rows = errors[name]
        assert round(expected) - 1 <= round(line["df"], 6) <= rows - 1
        assert line["pairs_error"] >= unrelated
    assert effective["pocket-words"] < 300
    shown = " ".join(cli("compare", *words, "pocket-words,MEN").out.split())
    assert f"fewer unrelated ones: {effective['pocket-words']:,.0f} for pocket-words." in shown
    assert "Rows are taken as independent, because their texts are not at hand: MEN." in shown
    assert "drawn together" not in cli("compare", *words, "MEN").out
