"""`adapt`: it trains on a user's own texts, judges on labels that no text of the training has, and goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import Cli
from sentence_transformers import SentenceTransformer

import benchmark
import zoo
from choose.adapt import _test_of, beginning, best_pooled, read_budget
from choose.adaptation import NONE, Adaptation, HomeData
from choose.data import Texts, divided, training_pairs
from choose.own_texts import language_notes, read_own_texts
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError, ZooError
from zoo.methods.simcse import SimCSE

WORDS = ["dog", "cat", "horse", "market", "garden", "river", "engine", "teacher", "song", "winter", "bread", "window"]
METHODS = "whitening:k=null,simcse:batch_size=8,sentence-crops:batch_size=4,cosent:batch_size=8,simcse-sup"


def sentence(topic: int, number: int) -> str:
    word, other = WORDS[topic % len(WORDS)], WORDS[number % len(WORDS)]
    return f"the {word} and the {word} of number {number} saw a {other} in room {number * 7 % 101}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of four sentences, and 220 scored pairs, a few of whose texts are in the documents."""
    folder = tmp_path_factory.mktemp("own")
    documents = ["\n".join(sentence(i, 1000 + 4 * i + j) for j in range(4)) for i in range(60)]
    (folder / "texts.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    rows = ["first\tsecond\tscore"]
    for i in range(220):
        alike = i % 3 == 0
        first = sentence(i, 1000 + i) if i < 40 else sentence(i, 5000 + i)
        rows.append(f"{first}\t{sentence(i if alike else i + 5, 9000 + i)}\t{4.0 if alike else i % 3 / 2}")
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_a_table_a_sentence_and_an_encoder(folder: Path, tiny_bert: Path, tmp_path: Path) -> None:
    given = {"encoder": str(tiny_bert), "methods": METHODS, "budget": "3 updates", "seeds": 2, "quiet": True}
    adaptation = benchmark.adapt(folder / "texts.txt", folder / "pairs.tsv", out=tmp_path, **given)
    names = {name.partition(":")[0] for name in adaptation.frame.index}
    assert names == {NONE, "whitening", "simcse", "sentence-crops", "cosent"} and not adaptation.failed
    assert (adaptation.development.units, adaptation.test.units) == (55, 110)
    trained = adaptation.frame[adaptation.frame["seeds"] == 2]
    assert len(trained) == 3 and set(trained["updates"]) == {3}
    assert any("are in the test" in note for note in adaptation.notes)
    assert any("without simcse-sup" in note for note in adaptation.notes)
    others = adaptation.frame.drop(NONE)
    assert (others["gain_low"] <= others["gain"]).all() and (others["change_low"] <= others["change_high"]).all()
    # What is recomputed from vectors is what the table says.
    vectors = adaptation.vectors("simcse:batch_size=8", 1, ["the dog", "the cat"])
    assert vectors.shape == (2, 32)
    assert adaptation.frame.loc[NONE, "score"] == pytest.approx(
        adaptation.frame.loc["simcse:batch_size=8", "score"] - adaptation.frame.loc["simcse:batch_size=8", "gain"]
    )
    written = sorted(tmp_path.glob("results/*/records/*/*.json"))
    times = [path.stat().st_mtime_ns for path in written]
    again = benchmark.adapt(folder / "texts.txt", folder / "pairs.tsv", out=tmp_path, **given)
    assert [path.stat().st_mtime_ns for path in written] == times
    assert again.frame["gain"].equals(adaptation.frame["gain"]) and again.verdict == adaptation.verdict


def test_the_winner_is_written_with_its_origin(
    folder: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a random model no candidate is sure to be better.
    monkeypatch.setattr(Adaptation, "advice", property(lambda self: "whitening:k=null"))
    given = {"encoder": str(tiny_bert), "methods": "whitening:k=null", "out": tmp_path, "quiet": True}
    adaptation = benchmark.adapt(folder / "texts.txt", folder / "pairs.tsv", **given)
    assert adaptation.written == tmp_path / "model"
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "Adapted from" in card and "texts.txt" in card
    expected = adaptation.vectors(adaptation.advice, 0, ["the dog of the market"])
    vectors = SentenceTransformer(str(tmp_path / "model")).encode(["the dog of the market"])
    assert np.allclose(vectors, expected, atol=1e-5)


def test_without_pairs_documents_are_held_out(folder: Path, tiny_bert: Path) -> None:
    adaptation = benchmark.adapt(folder / "texts.txt", encoder=str(tiny_bert), methods="whitening:k=null", quiet=True)
    assert adaptation.test.kind == "binary" and "240" not in adaptation.notes[0]
    assert any("without pairs" in note for note in adaptation.notes)
    assert adaptation.verdict.startswith(("Train", "Do not train"))


def test_the_untrained_row_is_the_best_pooling_on_development(folder: Path, tiny_bert: Path) -> None:
    given = read_own_texts(folder / "texts.txt", None)
    _, test, training, _, _ = _test_of(given, folder / "pairs.tsv", None, None)
    assert training is not None
    runtime = Runtime("cpu", "fp32")
    for development in (test, training):
        parts = HomeData(development, test)
        start, note = best_pooled(beginning(str(tiny_bert), runtime), parts, runtime)
        values = {}
        for name in ("avg-last", "avg-first-last", "cls"):
            values[name] = parts.score_dev(zoo.create(f"{name}:backbone={tiny_bert}", runtime).encode)
            assert f"{name} {values[name]:.1f}" in note
        assert start.untrained.name == max(values, key=lambda name: values[name])


@pytest.mark.parametrize("spellings", [("30 updates", "30updates", " 30 update "), ("90s", "1.5m", "1.5 m")])
def test_the_spelling_of_a_budget_says_nothing(spellings: tuple[str, ...]) -> None:
    assert len({read_budget(spelling) for spelling in spellings}) == 1


def lines(folder: Path, texts: list[str], name: str = "texts.txt") -> str:
    (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize(
    ("texts", "pairs", "message"),
    [
        (["one text", "another"], 220, "2 texts to train on"),
        (["the same text"] * 500, 220, "of which 1 differ"),
        ([sentence(i, i) for i in range(200)], 10, "10 pairs"),
        ([sentence(i, i) for i in range(200)], 30, "30 pairs leave"),
        ([sentence(i, i) for i in range(200)], 0, "give --pairs"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(
    texts: list[str], pairs: int, message: str, tmp_path: Path, cli: Cli
) -> None:
    rows = ["first,second,score", *(f"{sentence(i, i)} a,{sentence(i, i)} b,{i % 5}" for i in range(pairs))]
    more = ["--pairs", lines(tmp_path, rows, "pairs.csv")] if pairs else []
    answer = cli("adapt", lines(tmp_path, texts), *more, "--encoder", "zoo-mini", "--out", tmp_path / "o")
    assert answer.code != 0 and message in " ".join(answer.err.split())


def test_methods_that_do_not_fit_are_no_advice(tmp_path: Path, cli: Cli) -> None:
    rows = ["first,second,score", *(f"{sentence(i, i)} a,{sentence(i, i)} b,{i % 5}" for i in range(120))]
    words = ["adapt", lines(tmp_path, [sentence(i, i) for i in range(200)]), "--encoder", "zoo-mini"]
    words += ["--pairs", lines(tmp_path, rows, "pairs.csv"), "--out", tmp_path / "o"]
    answer = cli(*words, "--methods", "sentence-crops,sbert")
    shown = " ".join(answer.err.split())
    assert answer.code == 2 and "no method can be tried: without sentence-crops: the texts are no documents" in shown
    assert "without sbert: it needs labels, 200 or more. Name others: --methods." in shown


@pytest.mark.parametrize("budget", ["soon", "10", "-5m", "0s", "10 d"])
def test_a_budget_is_a_time_or_updates(budget: str) -> None:
    assert (read_budget("90s"), read_budget("1.5h"), read_budget("200 updates")) == (
        (90.0, None),
        (5400.0, None),
        (0.0, 200),
    )
    with pytest.raises(UsageError, match="--budget"):
        read_budget(budget)


def pairs_of(places: list[tuple[int, int]], kind: str = "score") -> Texts:
    size = max(max(pair) for pair in places) + 1
    first, second = np.array(places, np.intp).T
    gold = np.arange(len(places)) % 2 * 1.0
    return Texts(kind, "", [f"text {i}" for i in range(size)], first, second, gold)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "places",
    [
        [(2 * i, 2 * i + 1) for i in range(200)],
        [(i // 3, 200 + i) for i in range(200)],
        # All hang together: some rows are left out.
        [(i, (7 * i + 1) % 150) for i in range(150)] + [(i, (i + 1) % 150) for i in range(150)],
    ],
)
def test_no_text_is_in_two_parts(places: list[tuple[int, int]]) -> None:
    data = pairs_of(places)
    parts = divided(data, {"development": 1, "test": 2})
    assert not {*parts[0].texts} & {*parts[1].texts}
    assert parts[1].units >= parts[0].units >= 20 and parts[0].units + parts[1].units <= data.units
    pairs = {(data.texts[a], data.texts[b], g) for a, b, g in zip(data.first, data.second, data.gold, strict=True)}
    for part in parts:
        rows = zip(part.first, part.second, part.gold, strict=True)
        assert {(part.texts[a], part.texts[b], g) for a, b, g in rows} <= pairs


def test_queries_and_classes_are_divided_and_become_pairs() -> None:
    n = 90
    asked = np.arange(n, dtype=np.intp)
    texts = [f"query {i}" for i in range(n)] + [f"answer {i}" for i in range(n)]
    search = Texts("retrieval", "", texts, asked, asked + n, np.ones(n), n, np.full(n, -1))
    development, test = divided(search, {"development": 1, "test": 2})
    assert development.queries + test.queries == n and len(test.texts) == test.queries + n
    for query, answer in zip(test.first, test.second, strict=True):
        assert test.texts[answer] == test.texts[query].replace("query", "answer")
    pairs = training_pairs(development)
    assert pairs.labels is not None and set(pairs.labels) == {"entailment", "contradiction"}
    classes = Texts("label", "", [f"text {i}" for i in range(n)], asked, asked, asked % 3 * 1.0)
    labelled = training_pairs(divided(classes, {"development": 1, "test": 1})[0])
    for i, label in enumerate(labelled.labels or ()):
        a, b = (int(text.split()[1]) % 3 for text in labelled.sentences[2 * i : 2 * i + 2])
        assert (a == b) == (label == "entailment")


def test_texts_are_lines_documents_or_long_cells(tmp_path: Path) -> None:
    single = read_own_texts(lines(tmp_path, ["one. two.", "three", "four"]))
    assert not single.ordered and len(single.documents) == 3
    long = "A first. A second one! A third? A fourth."
    (tmp_path / "table.csv").write_text(f'text\n"{long}"\n"{long} And."\n', encoding="utf-8")
    table = read_own_texts(tmp_path / "table.csv")
    assert table.ordered and [len(one) for one in table.documents] == [4, 5]
    (tmp_path / "docs").mkdir()
    for name in ("a", "b"):
        lines(tmp_path / "docs", [f"{name} one", f"{name} two"], f"{name}.txt")
    assert read_own_texts(tmp_path / "docs").documents == [["a one", "a two"], ["b one", "b two"]]
    kept, removed = read_own_texts(tmp_path / "docs").without(["A ONE."], frozenset({1}))
    assert (kept.documents, removed) == ([["a two"]], 1)
    with pytest.raises(ZooError, match="no such file"):
        read_own_texts(tmp_path / "none.txt")


def test_another_language_is_said() -> None:
    german = ["der Hund und die Katze sind nicht in dem Haus", "das ist ein Satz mit den Wörtern"] * 20
    english = ["the dog and the cat are not in the house", "this is a sentence of the words"] * 20
    assert language_notes(english, english, "zoo-small", ["en"]) == []
    assert language_notes(german, german, "some/model", ["de"]) == []
    assert "made for English" in language_notes(german, german, "zoo-small", ["en"])[0]
    assert "different languages" in language_notes(german, english, "some/model", ["de"])[0]


def test_a_recipe_takes_updates_across_epochs() -> None:
    encoder = SimCSE(SimCSE.Recipe(batch_size=4, steps=5, looks=2), Runtime())
    report = encoder.fit(
        Corpus("toy", [f"sentence number {i}" for i in range(8)]), dev_score=lambda _: 1.0, run=Run(seed=1)
    )
    assert report.steps == 5 and [*report.dev_scores] == ["3", "5"]


def test_the_sentence_says_what_it_rests_on() -> None:
    import pandas

    data = pairs_of([(2 * i, 2 * i + 1) for i in range(60)])

    def verdict(gain: float, p: float, change_high: float = 1.0, order: tuple[str, ...] = ("simcse", NONE)) -> str:
        rows = {
            "simcse": [
                60.0,
                62.0,
                gain,
                gain - 2,
                gain + 2,
                p,
                90.0 if gain > 0 and p > 0.05 else np.nan,
                True,
                -1.0,
                -3.0,
                change_high,
            ],
            NONE: [50.0, 60.0, *[np.nan] * 5, False, np.nan, np.nan, np.nan],
        }
        head = "development score gain gain_low gain_high p needed may_be_best change change_low change_high".split()
        frame = pandas.DataFrame.from_dict(rows, orient="index", columns=head).loc[list(order)]
        return Adaptation(frame, data, data, "zoo-small", [], {}).verdict

    assert verdict(5.0, 0.01).startswith("Train simcse: Spearman on 60 pairs of the test rises by +5.0 (3.0 to 7.0)")
    assert "forgets" in verdict(5.0, 0.01, -0.5) and "forgets" not in verdict(5.0, 0.01)
    assert verdict(1.0, 0.4).startswith("Do not train: simcse") and "may be nothing" in verdict(1.0, 0.4)
    assert verdict(1.0, 0.4).endswith("a test of about 90 pairs would show it (power 80 %).")
    assert verdict(-1.0, 0.4).endswith("may be nothing.")
    assert verdict(-5.0, 0.01).startswith("Do not train")
    assert verdict(5.0, 0.01, order=(NONE,)) == "No advice: each method failed."
    assert verdict(5.0, 0.01, order=(NONE, "simcse")).startswith("Do not train: on development none of 1")
