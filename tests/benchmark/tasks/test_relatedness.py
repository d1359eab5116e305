"""Tasks of relatedness, the bundled pocket tasks, and what all tasks keep."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer

from benchmark import tasks
from benchmark.data.catalog import POCKET, catalog
from benchmark.data.sources import DataSource
from benchmark.reasons import reason
from benchmark.tasks import TASKS, Task, TaskRow, register_task, words
from benchmark.tasks.relatedness import RegressorData
from zoo.encoder import Encoder, Runtime
from zoo.errors import UsageError
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# Supervised relatedness on frozen vectors: SentEval's own numbers, its order of rows, and what counts as seen.

FIXTURE = Path(__file__).parent.parent / "fixtures" / "senteval_relatedness.json"
SENTEVAL = json.loads(FIXTURE.read_text("utf-8"))
FILES = {
    "SICK-R-regressor": ("SICK/SICK_test_annotated.txt", (1, 2, 3)),
    "STS-B-regressor": ("STS/STSBenchmark/sts-test.csv", (5, 6, 4)),
}


def load(name: str, data_dir: Path, limit: int | None = None) -> RegressorData:
    data = TASKS.get(name).load(DataSource(data_dir, hub=False), limit)
    assert isinstance(data, RegressorData)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SENTEVAL["tasks"]))
def test_senteval_s_own_numbers(name: str, data_dir: Path) -> None:
    """The scores that SentEval's code gave on the same vectors, read from the same files; differences are float32's.

    Five to fifteen seconds of computing each: 58,000 and 74,000 steps.
    """
    cls, recipe = parse_methods(SENTEVAL["method"], all_recipes())[0].resolve({})
    scores = load(name, data_dir).score(cls(recipe, Runtime()).encode)
    expected = SENTEVAL["tasks"][name]
    assert scores["main"] == scores["spearman"] == pytest.approx(expected["spearman"], abs=5e-4)
    assert scores["pearson"] == pytest.approx(expected["pearson"], abs=5e-4)
    assert scores["mse"] == pytest.approx(expected["mse"], abs=1e-3)
    assert scores["dev_pearson"] == pytest.approx(expected["devpearson"], abs=5e-4)


@pytest.mark.parametrize("name", list(FILES))
def test_rows_in_senteval_s_order(name: str, data_dir: Path) -> None:
    """All splits, each by tokens of the first side, of the second side, then score; the pairs are the file's."""
    data = load(name, data_dir)
    assert [len(pairs) for pairs in data.splits] == ([4500, 500, 4927] if "SICK" in name else [5749, 1500, 1379])
    for pairs in data.splits:
        keys = [
            (len(a.split()), len(b.split()), y)
            for a, b, y in zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        ]
        assert keys == sorted(keys)
    file, columns = FILES[name]
    lines = (data_dir / "senteval" / "downstream" / file).read_text("utf-8").strip().split("\n")
    rows = [line.split("\t") for line in lines[1 if "SICK" in name else 0 :]]
    raw = sorted((*(" ".join(row[i].split()) for i in columns[:2]), float(row[columns[2]])) for row in rows)
    test = data.splits[-1]
    assert raw == sorted(zip(test.first, test.second, test.gold.tolist(), strict=True))
    assert set(data.unlabelled()) == set(data.texts()) == {t for pairs in data.splits for t in pairs.texts()}


def test_tested_texts_are_those_of_the_test_part(data_dir: Path) -> None:
    """Both sides of 1,379 pairs; what the regressor trains on is none of them."""
    data = TASKS.get("STS-B-regressor").load(DataSource(data_dir, hub=False))
    assert len(data.tested()) == 2 * 1379
    assert len(data.texts()) == 2 * (5749 + 1500 + 1379)


@pytest.mark.slow
def test_what_is_reported(data_dir: Path) -> None:
    """Spearman and Pearson of the predictions that the mean squared error is of; constant vectors have no score."""
    from benchmark.metrics.probe.protocol import pair_features
    from benchmark.metrics.relatedness import regress

    data = load("SICK-R-regressor", data_dir, 90)
    rng = np.random.default_rng(0)
    matrix = {text: rng.normal(size=8).astype(np.float32) for text in data.texts()}
    scores = data.score(lambda texts: np.stack([matrix[text] for text in texts]))
    sides = [[np.stack([matrix[t] for t in side]) for side in (p.first, p.second)] for p in data.splits]
    gold = [pairs.gold for pairs in data.splits]
    fit = regress(np.concatenate([pair_features(u, v) for u, v in sides]), gold[0], gold[1])
    assert scores["main"] == pytest.approx(stats.spearmanr(fit.predicted, gold[2]).statistic)
    assert scores["pearson"] == pytest.approx(stats.pearsonr(fit.predicted, gold[2]).statistic)
    assert scores["mse"] == pytest.approx(np.square(fit.predicted - gold[2]).mean())
    constant = data.score(lambda texts: np.ones((len(texts), 4), np.float32))
    assert (constant["main"], constant["reason"]) == (None, reason("constant"))


# The bundled pocket data: its form, its grades, no text in two places, and what encoders score on it.

PAIRS = ("pairs", "words", "phrases")
KINDS = ("answers", "captions", "headlines", "news", "questions")
HIGHEST = {"pairs": 5, "words": 10, "phrases": 5}


def lines(name: str) -> list[list[str]]:
    """Return the fields of a file's lines, without its header."""
    text = (POCKET / f"{name}.tsv").read_text(encoding="utf-8")
    assert text.endswith("\n") and "\r" not in text
    return [line.split("\t") for line in text.splitlines()[1:]]


def letters(text: str) -> str:
    """Return a text's letters and digits, lower-cased."""
    return re.sub(r"[\W_]", "", text.lower())


def correlation(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
    """Return 100 times scipy's Spearman correlation of the cosines; 0 where they are all equal."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = (first * second).sum(axis=1) / np.maximum(lengths, 1e-12)
    return 100 * float(stats.spearmanr(cosine, gold).statistic) if np.ptp(cosine) else 0.0


@pytest.mark.parametrize("name", PAIRS)
def test_grades_are_halves_of_the_scale(name: str) -> None:
    """Every grade is on the scale of docs/pocket.md, and every fifth of the scale has pairs."""
    grades = [float(fields[-3]) for fields in lines(name)]
    assert all(0 <= grade <= HIGHEST[name] and (2 * grade).is_integer() for grade in grades)
    fifths = Counter(min(int(5 * grade / HIGHEST[name]), 4) for grade in grades)
    assert min(fifths[place] for place in range(5)) > 0.09 * len(grades)


def test_kinds_and_splits() -> None:
    """The five kinds have equally many pairs, a third of them in dev."""
    counts = Counter((fields[0], fields[1]) for fields in lines("pairs"))
    assert counts == {(kind, split): size for kind in KINDS for split, size in (("dev", 44), ("test", 88))}


def test_texts_are_plain_and_no_pair_stands_twice() -> None:
    """Unequal texts on both sides; no pair of words or phrases twice, in either order."""
    for name, width in (("pairs", 5), ("words", 3), ("phrases", 3)):
        rows = lines(name)
        assert {len(fields) for fields in rows} == {width}
        texts = [(fields[-2], fields[-1]) for fields in rows]
        assert all(text == " ".join(text.split()) and text for pair in texts for text in pair)
        keys = [frozenset(map(letters, pair)) for pair in texts]
        assert all(len(key) == 2 for key in keys) and len(set(keys)) == len(keys)


def test_no_sentence_stands_in_two_places() -> None:
    """Within the pairs, between dev and test, among the topics, and in the training text."""
    sentences = [(letters(text), fields[1]) for fields in lines("pairs") for text in fields[3:]]
    once = [text for text, _ in sentences] + [letters(fields[1]) for fields in lines("labelled")]
    assert len(once) == len(set(once))
    training = {letters(line) for line in (POCKET / "sentences.txt").read_text(encoding="utf-8").splitlines()}
    assert not training & set(once)


def test_word_overlap_is_not_enough() -> None:
    """Counts of equal words by scikit-learn, against the grades: some use on sentences, hardly any on phrases."""
    for name, most in (("pairs", 45), ("phrases", 25)):
        rows = lines(name)
        first, second, gold = [r[-2] for r in rows], [r[-1] for r in rows], np.array([float(r[-3]) for r in rows])
        counts = CountVectorizer(token_pattern=r"\w+").fit([*first, *second])
        assert correlation(counts.transform(first).toarray(), counts.transform(second).toarray(), gold) < most


def looked_up(vectors: np.ndarray, at: dict[str, int], texts: Sequence[str]) -> np.ndarray:
    return np.asarray(vectors[[at[text] for text in texts]])


def scores(encoder: Encoder) -> dict[str, float]:
    """Return 100 times the score of each pocket task, by the tasks' own code; half of the long ones, to be short."""
    by_name = {}
    for name, limit in (("pairs", 44), ("words", None), ("phrases", None), ("topics", 30)):
        data = TASKS.get(f"pocket-{name}").load(DataSource(None, hub=False), limit)
        texts = list(dict.fromkeys(data.texts()))
        vectors = encoder.encode(texts)
        at = {text: place for place, text in enumerate(texts)}

        by_name[name] = 100 * (data.score(partial(looked_up, vectors, at))["main"] or 0.0)
    return by_name


@pytest.mark.slow
def test_a_strong_encoder_agrees_with_the_grades(minilm: Path) -> None:
    """all-MiniLM-L6-v2 reaches what docs/pocket.md says, on half of the long tasks; controls are far below."""
    import zoo

    strong = scores(zoo.create(f"pretrained:model={minilm}"))
    assert min(strong[name] for name in PAIRS) > 75 and strong["topics"] > 90
    for control in ("bag-of-words", "random"):
        weak = scores(zoo.create(control))
        assert all(weak[name] < strong[name] - 30 for name in strong), (control, weak, strong)


# The table of tasks: every row under one name, what listing costs, and plugins' classes beside the rows.


def test_every_row_has_a_name_of_its_own() -> None:
    """A name given twice would take the place of the other row without a word."""
    rows = [TASKS.get(name) for name in TASKS.names() if TASKS.is_builtin(name)]
    assert len(rows) >= 66 and all(isinstance(row, TaskRow) for row in rows)
    assert all(row.form in catalog()[row.dataset].forms for row in rows if row.dataset in catalog())
    assert {name for entry in catalog().values() for name in entry.tasks} < set(TASKS.names())
    with pytest.raises(UsageError, match="task 'MEN' is stated twice"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "ROWS", (TASKS.get("MEN"),), raising=False)
        patch.setattr(tasks, "_with_rows", lambda: [words])
        tasks._builtin()


def test_settings_share_their_data() -> None:
    """The transfer tasks in two settings: the same data, another metric, another setting of the probe."""
    for name in ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SICK-E"):
        full, fast = TASKS.get(name), TASKS.get(f"{name}-fast")
        assert {(task.dataset, task.form, task.version) for task in (full, fast)} == {(full.dataset, "tokenised", 1)}
        assert fast.title == f"{full.title}, fast"
        assert full.metric != fast.metric


@pytest.mark.slow
def test_listing_reads_no_data_and_imports_no_torch() -> None:
    code = (
        "import builtins, pathlib, sys\n"
        "from benchmark.cli.main import main_group\n"
        "from benchmark.data.sources import DataSource\n"
        "def refuse(*_, **__): raise AssertionError('data was looked for')\n"
        "DataSource.locate = refuse\n"
        "main_group(['tasks'], standalone_mode=False)\n"
        "print(sorted({'torch', 'transformers', 'sklearn', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *lines, heavy = done.stdout.strip().splitlines()
    assert heavy == "[]"
    assert sum(line.split()[0] in TASKS.names() for line in lines if line.split()) >= 70


def test_a_plugin_s_class_is_a_task_and_a_new_one_each_time(clean_registries: None) -> None:
    @register_task("mine")
    class Mine(Task):
        title, dataset = "mine", "pocket-words"

        def load(self, data: DataSource, limit: int | None = None) -> tasks.TaskData:
            return TASKS.get("pocket-words").load(data, limit)

    first, second = TASKS.get("mine"), TASKS.get("mine")
    assert isinstance(first, Mine) and first is not second
    assert (first.form, first.version, first.metric) == ("plain", 1, "Spearman, cosine")
    assert first.load(DataSource(None, hub=False), 5).rows == 5
    assert not isinstance(first, TaskRow)


def test_a_plugin_may_not_take_the_name_of_a_row(clean_registries: None) -> None:
    with pytest.raises(UsageError, match=r"'MEN' is defined twice: in benchmark\.tasks\.words and in "):

        @register_task("MEN")
        class Mine(Task):
            title, dataset = "mine", "MEN"


def test_what_is_no_task_is_broken_with_the_reason(clean_registries: None) -> None:
    register_task("none")(int)  # type: ignore[type-var]
    with pytest.raises(UsageError, match=r"is not a subclass of benchmark\.tasks\.base\.Task"):
        TASKS.get("none")
