"""Training text: from a file or the catalog, sampled the same way always, compared with the test texts."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.data import corpora
from benchmark.data.catalog import catalog
from benchmark.data.corpora import load_corpus, load_pairs, normalised, normalised_texts, overlap
from benchmark.data.sources import DataSource
from zoo.encoder import PHRASE_LABELS, Corpus
from zoo.errors import CorruptError, MissingError, UsageError

HERE = DataSource(None, hub=False)


def test_a_sample_of_a_long_text_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to a sample without the cache; a damaged sample is drawn again."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    kinds = [(90, False), (90, True), (91, False)]
    ordered = {"pocket-text": replace(catalog()["pocket-text"], ordered=True)}
    monkeypatch.setattr(corpora, "catalog", lambda: ordered)
    plain = [load_corpus("pocket-text", HERE, count, documents=documents) for count, documents in kinds]
    monkeypatch.setattr(corpora, "_LONG", 1000)
    lines_of, read = corpora.lines_of, []
    monkeypatch.setattr(corpora, "lines_of", lambda *words: read.append(words) or lines_of(*words))

    def again() -> int:
        read.clear()
        drawn = [load_corpus("pocket-text", HERE, count, documents=documents) for count, documents in kinds]
        assert [(of.sentences, of.documents) for of in drawn] == [(of.sentences, of.documents) for of in plain]
        return len(read)

    assert [again(), again()] == [3, 0]
    first, second, _ = sorted((tmp_path / "samples").glob("*.json"))
    first.write_bytes(first.read_bytes()[:-20])
    second.write_text(second.read_text(encoding="utf-8").replace("a", "b", 1), encoding="utf-8")
    assert [again(), again()] == [2, 0]


def test_a_catalog_corpus_and_a_file_are_the_same(pocket_sentences: list[str], tmp_path: Path) -> None:
    """By name from the catalog, by path from a file, packed or not."""
    bundled = load_corpus("pocket-text", HERE, None)
    assert bundled.sentences == pocket_sentences
    assert bundled.name == "pocket-text"
    path = tmp_path / "mine.txt.xz"
    path.write_bytes(lzma.compress("\n".join(pocket_sentences).encode()))
    corpus = load_corpus(str(path), HERE, None)
    assert corpus.name == "mine.txt.xz"
    assert corpus.sha256() == bundled.sha256()


def test_a_sample_is_always_the_same() -> None:
    """--train-sentences draws the same sentences in every run."""
    first, again = (load_corpus("pocket-text", HERE, 100) for _ in range(2))
    assert first.sha256() == again.sha256()
    assert len(set(first.sentences)) == 100
    assert load_corpus("pocket-text", HERE, 101).sha256() != first.sha256()


def test_neighbours_are_kept_together_in_a_draw(tmp_path: Path) -> None:
    """An empty line ends a document; runs of up to 100 sentences are drawn, in the file's order."""
    lines = [f"d{d} s{s}" for d in range(40) for s in range(3 + 10 * d)]
    text = "\n".join("\n".join(f"d{d} s{s}" for s in range(3 + 10 * d)) + "\n" for d in range(40))
    path = tmp_path / "documents.txt"
    path.write_text(text, encoding="utf-8")
    full = load_corpus(str(path), HERE, None, documents=True)
    assert list(full.sentences) == lines and len(full.documents or ()) == 40
    assert full.identity() == {"name": path.name, "sentences": len(lines), "documents": 40, "sha256": full.sha256()}
    plain = load_corpus(str(path), HERE, None)
    assert plain.documents is None and plain.sha256() != full.sha256() and "documents" not in plain.identity()
    drawn = load_corpus(str(path), HERE, 1000, documents=True)
    assert (
        len(drawn.sentences) == 1000 and drawn.sha256() == load_corpus(str(path), HERE, 1000, documents=True).sha256()
    )
    number = {line: i for i, line in enumerate(lines)}
    places = [number[sentence] for sentence in drawn.sentences]
    assert places == sorted(places)
    ends = drawn.document_ends()
    for i, end in enumerate(ends[:-1]):
        if i + 1 < end:  # the next sentence of its document
            assert places[i + 1] == places[i] + 1 and drawn.sentences[i].split()[0] == drawn.sentences[i + 1].split()[0]
    assert 0.9 < np.mean(ends > np.arange(1000) + 1) < 1
    assert max(np.diff([*(drawn.documents or ()), 1000])) <= 100


def test_a_corpus_without_documents_has_no_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    for name in (str(path), "pocket-text"):
        with pytest.raises(MissingError, match=r"^corpus .+ does not say which sentences are neighbours: put an empty"):
            load_corpus(name, HERE, None, documents=True)


@pytest.mark.slow
def test_wiki_is_in_order(data_dir: Path) -> None:
    """The catalog says so: its lines are one document, and a draw keeps runs of them."""
    drawn = load_corpus("wiki", DataSource(data_dir), 1500, documents=True)
    assert len(drawn.sentences) == 1500 and len(drawn.documents or ()) == 15
    assert drawn.documents == list(range(0, 1500, 100))


def test_overlap_sees_through_spelling() -> None:
    """Case, tokenisation, quotes and spaces do not hide a copy; blank sentences are none."""
    tested = ["A dog's bone.", 'The "market" fell 3%', "été", "..."]
    sentences = ["a dog 's bone .", "the `` market '' fell 3 %", "ÉTÉ!", "a cat's bone", "", "...", "a dog's bone"]
    digests = overlap(Corpus("x", sentences), tested)
    assert len(digests) == 3  # each test text once, however often it is trained on
    assert digests == overlap(normalised_texts(sentences), [*reversed(tested), "a DOG'S bone", "another"])
    assert len(overlap(Corpus("x", sentences), tested[:2])) == 2
    assert overlap(Corpus("x", sentences), []) == []
    assert normalised("A dog's bone.") == normalised("a dog 's bone .")
    assert normalised("3 cats") != normalised("cats")


def test_labelled_pairs_are_read_flat_with_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "nli.tsv"
    path.write_text("a b\tc\tentailment\na b\td\tneutral\nq\tr\tcontradiction\n")
    pairs = load_pairs(str(path), HERE, None)
    assert pairs.name == "nli.tsv"
    assert list(pairs.sentences) == ["a b", "c", "a b", "d", "q", "r"]
    assert list(pairs.labels or ()) == ["entailment", "neutral", "contradiction"]
    assert pairs.identity()["pairs"] == 3
    assert list(load_pairs(str(path), HERE, 1).labels or ()) == ["entailment"]
    other = Corpus(pairs.name, pairs.sentences, ["neutral", "neutral", "contradiction"])
    assert other.sha256() != pairs.sha256(), "labels are part of the identity"


def test_a_pair_without_a_known_label_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "nli.tsv"
    path.write_text("\n\na\tb\tentailment\na\tb\tentailed\n\na\tb\tneutral\n")
    with pytest.raises(CorruptError, match=r"nli\.tsv:4: 'entailed'"):
        load_pairs(str(path), HERE, None)
    with pytest.raises(MissingError, match="absent"):
        load_pairs(str(tmp_path / "absent.tsv"), HERE, None)


def test_several_pairs_are_joined_by_plus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NLI and a PPDB pack become one corpus; broken lines of the pack are told on standard error."""
    nli, pack = tmp_path / "nli.tsv", tmp_path / "pack.txt"
    nli.write_text("a b\tc\tentailment\nq\tr\tneutral\ns\tt\tneutral\n")
    relations = ["Equivalence", "ReverseEntailment", "Independent"]
    lines = [f"[NP] ||| thing {i} ||| object {i} ||| Equivalence=0.5 ||| 0-0 ||| {relations[i % 3]}" for i in range(60)]
    pack.write_text("\n".join([*lines, "no pair"]) + "\n")
    both = load_pairs(f"{nli}+{pack}", HERE, None)
    assert both.name == "nli.tsv+pack.txt"
    labels = list(both.labels or ())
    assert labels[:3] == ["entailment", "neutral", "neutral"]
    assert {labels.count(label) for label in PHRASE_LABELS} == {(len(labels) - 3) // 3} and len(labels) > 40
    assert both.sentences[6].startswith("thing ") and both.sentences[7].startswith("object ")
    assert both.identity()["pairs"] == len(labels)
    assert "pack.txt:61: 1 fields" in capsys.readouterr().err
    few = load_pairs(f"{nli}+{pack}", HERE, 2)
    assert sorted(few.labels or ()) == sorted(["entailment", "neutral", *PHRASE_LABELS])
    alone = load_pairs(str(nli), HERE, None)
    assert alone.sentences == both.sentences[:6] and alone.name == "nli.tsv"
    named = tmp_path / "a+b.tsv"
    named.write_text("a\tb\tneutral\n")
    assert load_pairs(str(named), HERE, None).name == "a+b.tsv"
    with pytest.raises(MissingError, match="absent"):
        load_pairs(f"{nli}+{tmp_path / 'absent'}", HERE, None)


def test_scored_pairs_are_read_from_a_file_and_the_benchmark(tmp_path: Path, data_dir: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("score\tfirst\tsecond\n4.5\ta  b\tc\n0\td\te\n")
    corpus = load_pairs(str(path), HERE, None)
    assert (corpus.labels, corpus.scores, list(corpus.sentences)) == (None, [4.5, 0.0], ["a b", "c", "d", "e"])
    assert corpus.identity()["pairs"] == 2 and load_pairs(str(path), HERE, 1).scores == [4.5]
    assert Corpus(corpus.name, corpus.sentences, scores=[4.5, 1.0]).sha256() != corpus.sha256(), "scores are part of it"
    with pytest.raises(UsageError, match="scored pairs cannot be joined"):
        load_pairs(f"{path}+{path}", HERE, None)
    path.write_text("score\tfirst\tsecond\n4.5\ta\tb\n7\ta\tb\n")
    with pytest.raises(CorruptError, match=r"own\.tsv:3: score 7\.0 is outside 0\.\.5"):
        load_pairs(str(path), HERE, None)
    train = load_pairs("STSBenchmark", DataSource(data_dir, hub=False), None)
    assert len(train.scores or ()) == 5749 and len(train.sentences) == 2 * 5749 and max(train.scores or ()) == 5


@pytest.mark.slow
def test_the_identity_of_nli_alone_is_what_it_was(data_dir: Path) -> None:
    """Keys of what was trained on it hold."""
    if not (data_dir / "nli" / "nli.tsv.xz").is_file():
        pytest.skip("no NLI pairs")
    assert load_pairs("nli", DataSource(data_dir, hub=False), None).identity() == {
        "name": "nli",
        "pairs": 97631,
        "sha256": "ddfb32ba582fd0a300cd677ace540e074d1d499fbf5c9c8ddbf68eed7b2ac067",
    }


@pytest.mark.parametrize(("seconds", "lines"), [(0.001, 0), (0.02, 1), (0.1, 5)])
def test_a_long_text_is_announced_and_its_reading_shown(
    seconds: float, lines: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is read, how far within 20 seconds, then each minute; the sample is the same."""
    name, now, printed = "pocket-text", [0.0], list[str]()
    source = DataSource(None, hub=False, cache=tmp_path)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    expected = load_corpus(name, source, 50, say=printed.append).sentences
    assert printed == [], "it is short"
    monkeypatch.setattr("benchmark.data.corpora._LONG", 1000)
    monkeypatch.setattr("benchmark.data.corpora._LOOK", 10)

    def clock() -> float:
        now[0] += 10 * seconds
        return now[0]

    monkeypatch.setattr("benchmark.data.corpora.time.monotonic", clock)
    assert load_corpus(name, source, 50, say=printed.append).sentences == expected
    assert printed[0].startswith("reading pocket-text: 2,998 lines of ")
    assert [text.partition("/")[2] for text in printed[1:]] == ["2,998"] * lines
    assert lines == 0 or int(printed[1].split()[2].partition("/")[0].replace(",", "")) * seconds <= 20


def test_the_catalogs_pairs_are_read_without_a_question(data_dir: Path) -> None:
    """Their file has no header: premise, hypothesis, label, source."""
    pairs = load_pairs("nli", DataSource(data_dir, hub=False), 100)
    assert set(pairs.labels or ()) == {"entailment", "neutral", "contradiction"} and len(pairs.sentences) == 200
