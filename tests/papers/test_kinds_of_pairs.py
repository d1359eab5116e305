"""Scores of kinds of pairs from kept pair scores: against scipy and plain loops over the pairs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record
from scipy import stats

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import ranks, row_scores, scored_pairs, spearman
from benchmark.tasks.loaded import load_tasks
from zoo_bench_papers.analysis.pairs import HARD, Hard, part

pytestmark = pytest.mark.slow

TASK = "pocket-pairs"
PLAIN = ("--tasks", TASK, "--no-plots")


def pocket(name: str = TASK) -> Pairs:
    (task,) = load_tasks([name], DataSource(None, hub=False), None)
    return scored_pairs(task, "test")


def predicted(seed: int, name: str = TASK) -> np.ndarray:
    """Scores of two decimals, so that some are equal."""
    gold = pocket(name).gold
    return np.float32(np.round(gold / 5 + np.random.default_rng(seed).normal(0, 0.3, len(gold)), 2))


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A method of two seeds and one without a seed, their pairs kept; and one of before."""
    folder = Records(tmp_path / "results")
    for name, seeds in (("good", (0, 1)), ("plain", (None,))):
        for seed in seeds:
            folder.write(make_record(name, TASK, seed), (predicted(seed or 0), pocket().gold))
    folder.write(make_record("old", TASK))
    return folder


def tables(cli: Cli, store: Records, *words: object) -> dict[str, Any]:
    chosen = ("--no-plots",) if "--tasks" in words else PLAIN
    answer = cli("analyze", "pairs", "--results", store.folder, *chosen, *words)
    assert answer.code == 0, answer.err
    content = json.loads((store.folder / "analysis" / "pairs.json").read_text("utf-8"), parse_constant=pytest.fail)
    return dict(content["tables"])


def expected(indices: list[int]) -> dict[str, Any]:
    """What the line of method `good` says of these pairs."""
    gold, seeds = pocket().gold, [predicted(seed) for seed in (0, 1)]
    place = lambda values: 100 * (stats.rankdata(values) - 0.5) / len(values)  # noqa: E731
    off = np.array([place(values) - place(gold) for values in seeds])[:, indices]
    each = [100 * stats.spearmanr(values[indices], gold[indices]).statistic for values in seeds]
    numbers = {"Spearman": np.mean(each), "SD": np.std(each, ddof=1)}
    return {"Pairs": len(indices), "Seeds": 2, **numbers, "Rank error": np.abs(off).mean(), "Rank bias": off.mean()}


def check(line: dict[str, Any], indices: list[int]) -> None:
    wanted = expected(indices)
    assert {key: line[key] for key in wanted} == {key: pytest.approx(value, abs=1e-5) for key, value in wanted.items()}


def test_hard_pairs_by_the_words_of_the_paper(cli: Cli, store: Records) -> None:
    """Positive pairs far apart in length and negative pairs close, their complements, and all."""
    words = ("--positive", 3.5, "--longer-by", 2, "--negative", 1.5, "--closer-than", 1)
    lines = {line["Pairs of"]: line for line in tables(cli, store, "--methods", "good", *words)["pairs-hard"]["rows"]}
    hard, easy, rest = [], [], []
    for i, (first, second, gold) in enumerate(zip(pocket().first, pocket().second, pocket().gold, strict=True)):
        apart = abs(len(first.split()) - len(second.split()))
        if (gold >= 3.5 and apart > 2) or (gold <= 1.5 and apart < 1):
            hard.append(i)
            continue
        rest.append(i)
        if gold >= 3.5 or gold <= 1.5:
            easy.append(i)
    assert len(hard) > 50 and len(easy) > 50
    every = list(range(len(pocket().gold)))
    for kind, indices in (("all", every), ("hard", hard), ("easy", easy), ("all but hard", rest)):
        check(lines[kind], indices)


def test_bands_of_length(cli: Cli, store: Records) -> None:
    """Every pair is in one band; a band of few pairs is n/a, with its number and the reason."""
    table, pairs = tables(cli, store, "--methods", "good")["pairs-length"], pocket()
    lengths = [max(len(a.split()), len(b.split())) for a, b in zip(pairs.first, pairs.second, strict=True)]
    edges = [1, 6, 11, 16, 21, 31, 999]
    assert sum(line["Pairs"] for line in table["rows"]) == len(pairs.gold)
    for line, low, high in zip(table["rows"], edges[:-1], edges[1:], strict=True):
        indices = [i for i, length in enumerate(lengths) if low <= length < high]
        if len(indices) >= 50:
            check(line, indices)
        else:
            assert (line["Pairs"], line["Spearman"], line["Rank error"]) == (len(indices), None, None)
            assert f"n/a: {TASK}, {line['Pairs of']} ({len(indices)} pairs): fewer than 50 pairs" in table["notes"]
    assert sum(line["Spearman"] is not None for line in table["rows"]) == 2


def test_no_text_is_written_and_all_files_agree(cli: Cli, store: Records) -> None:
    """Markdown, JSON and CSV; without plots no page."""
    by_table = tables(cli, store, "--methods", "good,plain")
    out = store.folder / "analysis"
    names = {f"pairs-{name}" for name in ("hard", "length")}
    written = {f"{name}.csv" for name in (*names, "pairs-differences")}
    assert {path.name for path in out.iterdir()} == {"pairs.md", "pairs.json", *written}
    for name in names:
        with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert [line["Spearman"] for line in lines] == [
            "" if row["Spearman"] is None else f"{row['Spearman']:.6g}" for row in by_table[name]["rows"]
        ]
    everything = "".join(path.read_text(encoding="utf-8") for path in out.iterdir()).lower()
    assert not any(text.lower() in everything for text in pocket().texts())


def test_equal_gold_scores_have_no_correlation_but_a_rank_error(store: Records) -> None:
    """The lowest fifth with one score only."""
    low = np.where(pocket().gold < 1, 0, pocket().gold)
    store.write(make_record("flat", TASK), (predicted(0), low))
    records = [record for record in store.all() if record["method"]["name"] == "flat"]
    result = part(row_scores("flat", records, TASK, store), low == 0)
    assert (result.spearman, result.reason, result.pairs) == (None, "all of one score", 65)
    assert result.error is not None and result.bias is not None
    # Pairs that share the lowest place can only be put too high, as a whole.
    assert result.error.mean() > result.bias.mean() > 0


def test_an_average_needs_every_task(cli: Cli, tmp_path: Path) -> None:
    """Over two tasks it is the mean of theirs; words have no hard pairs, and then there is none."""
    store = Records(tmp_path)
    for task in (TASK, "pocket-words"):
        store.write(make_record("m", task), (predicted(3, task), pocket(task).gold))
    rows = tables(cli, store, "--methods", "m", "--tasks", f"{TASK},pocket-words", "--longer-by", 0)["pairs-hard"]
    lines = {(line["Task"], line["Pairs of"]): line for line in rows["rows"]}
    each = [lines[task, "all"]["Spearman"] for task in (TASK, "pocket-words")]
    assert lines["Avg.", "all"]["Spearman"] == pytest.approx(np.mean(each))
    assert lines["pocket-words", "hard"]["Spearman"] is None and lines[TASK, "hard"]["Spearman"] is not None
    assert lines["Avg.", "hard"]["Spearman"] is None
    assert "n/a: pocket-words, hard (61 pairs): no hard positive pair" in rows["notes"]
    assert any("m, Avg., hard" in note and "1 of 2 tasks" in note for note in rows["notes"])


def test_what_is_missing_is_said(cli: Cli, store: Records, tmp_path: Path) -> None:
    """Records of before, other data than the record's, unknown names and tasks; one method's gap is not another's."""
    table = tables(cli, store, "--methods", "old,plain")["pairs-hard"]
    assert [line["Spearman"] is None for line in table["rows"] if line["Pairs of"] in (None, "all")] == [True, False]
    assert any("n/a: old, pocket-pairs: old on pocket-pairs: no pair scores" in note for note in table["notes"])
    other = pocket().gold[::-1].copy()
    store.write(make_record("other", TASK), (predicted(0), other))
    for words, code, text in (
        (("--methods", "old"), 1, "no pair scores beside"),
        (("--methods", "other"), 1, "other gold scores than the record"),
        (("--methods", "good", "--tasks", "STS12"), 1, "has no score of STS12 (not run)"),
    ):
        arguments = words if {"--suite", "--tasks"} & {*words} else (*PLAIN, *words)
        answer = cli("analyze", "pairs", "--results", store.folder, "--out", tmp_path / "o", "--no-plots", *arguments)
        assert (answer.code, text in answer.err) == (code, True), answer.err
        assert not (tmp_path / "o" / "pairs.md").exists()


def test_globs_and_conditions_of_one_name(cli: Cli, store: Records) -> None:
    """Rows that share a name carry their key, as in the tables; a glob takes all names it matches."""
    store.write(make_record("good", TASK, row="2"), (predicted(5), pocket().gold))
    names = {line["Method"] for line in tables(cli, store, "--methods", "goo*,plain")["pairs-length"]["rows"]}
    keys = {make_record("good", TASK, row=row)["row_key"][:8] for row in ("row", "2")}
    assert names == {"plain", *(f"good [{key}]" for key in keys)}


def test_trials_have_the_texts_of_their_pairs(cli: Cli, tmp_path: Path) -> None:
    """A record of --limit 100 is of the first 100 pairs."""
    store, name = Records(tmp_path), "pocket-words"
    gold, values = pocket(name).gold[:100], predicted(0, name)[:100]
    store.write(make_record("m", name, limit=100), (values, gold))
    rows = tables(cli, store, "--methods", "m", "--tasks", name)["pairs-hard"]["rows"]
    assert (rows[0]["Pairs of"], rows[0]["Pairs"]) == ("all", 100)
    assert rows[0]["Spearman"] == pytest.approx(100 * stats.spearmanr(values, gold).statistic)


def test_ranks_and_spearman_are_scipys() -> None:
    values = np.random.default_rng(0).integers(0, 20, (2, 90)).astype(np.float32)
    assert np.array_equal(ranks(values[0]), stats.rankdata(values[0]))
    assert spearman(values[0], values[1]) == pytest.approx(100 * stats.spearmanr(values[0], values[1]).statistic)
    assert spearman(values[0], np.ones(90)) is None


def test_the_hard_subset_of_the_years(data_dir: Path) -> None:
    """Pairs that the declared thresholds leave of STS12-16; both kinds in every year."""
    counts = {}
    for task in load_tasks([f"STS{year}" for year in range(12, 17)], DataSource(data_dir, hub=False), None):
        pairs = scored_pairs(task, "test")
        hard = Hard().masks(pairs)[HARD]
        counts[task.name] = (int((hard & (pairs.gold >= 4)).sum()), int((hard & (pairs.gold <= 1)).sum()))
    assert counts == {
        "STS12": (99, 184), "STS13": (18, 248), "STS14": (176, 322), "STS15": (31, 296), "STS16": (20, 200),
    }  # fmt: skip


def test_differences_of_rows_have_the_noise_of_pairs_and_seeds(cli: Cli, store: Records) -> None:
    """Values against scipy, the error of a row without seeds against a jackknife over groups of pairs."""
    words = ("--positive", 3.5, "--longer-by", 2, "--negative", 1.5, "--closer-than", 1)
    lines = tables(cli, store, "--methods", "good,plain", *words)["pairs-differences"]["rows"]
    by_contrast = {(line["A"], line["B"], line["Of"]): line for line in lines}
    gold, pairs = pocket().gold, pocket()
    apart = np.abs([len(a.split()) - len(b.split()) for a, b in zip(pairs.first, pairs.second, strict=True)])
    hard = ((gold >= 3.5) & (apart > 2)) | ((gold <= 1.5) & (apart < 1))

    def measures(predicted: np.ndarray, kept: np.ndarray) -> dict[str, float]:
        rho = lambda of, a, b: 100 * stats.spearmanr(a[of], b[of]).statistic  # noqa: E731
        error = stats.rankdata(predicted[kept]) - stats.rankdata(gold[kept])
        return {
            "hard": rho(kept & hard, predicted, gold),
            "hard less all": rho(kept & hard, predicted, gold) - rho(kept, predicted, gold),
            "length bias": 100 * stats.spearmanr(error, apart[kept]).statistic,
        }

    every = np.ones(len(gold), dtype=bool)
    groups = np.random.default_rng(3).permutation(len(gold)) % 20
    of_seeds, plain = [measures(predicted(seed), every) for seed in (0, 1)], measures(predicted(0), every)
    without_group = [measures(predicted(0), groups != group) for group in range(20)]
    for measure, value in plain.items():
        both = np.mean([one[measure] for one in of_seeds])
        assert by_contrast["good", "plain", measure]["Difference"] == pytest.approx(both - value, abs=1e-4)
        line = by_contrast["plain", "0", measure]
        error = np.sqrt(19 / 20 * np.sum((np.array([one[measure] for one in without_group]) - value) ** 2))
        assert line["Difference"] == pytest.approx(value, abs=1e-4)
        assert 0.6 < (line["High"] - line["Low"]) / (2 * 1.96 * error) < 1.6
        wide = by_contrast["good", "0", measure]
        assert wide["High"] - wide["Low"] > abs(of_seeds[0][measure] - of_seeds[1][measure])  # t with one degree
