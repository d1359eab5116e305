"""PPDB: packs read line by line, broken lines counted and named, filters, balance, splits without a shared phrase."""

from __future__ import annotations

import gzip
import lzma
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.catalog import catalog
from benchmark.data.readers.pairs import read_lines
from benchmark.data.readers.ppdb import (
    HumanPair,
    PPDBPair,
    PPDBReport,
    balanced,
    filtered,
    human_training_rows,
    is_pack,
    ppdb_test_pairs,
    ppdb_training_rows,
    read_ppdb,
    read_ppdb_human,
    split_ppdb_human,
)
from zoo.encoder import PHRASE_LABELS
from zoo.files import hash_fraction

EQUIVALENCE, ENTAILMENT, INDEPENDENT = PHRASE_LABELS


def line(target: str, paraphrase: str, relation: str = "Equivalence", score: str = "0.5") -> str:
    features = f"PPDB2.0Score=4.2 PPDB1.0Score=3.1 AGigaSim=0.7 Equivalence={score} Exclusion=0.1 MVLSASim=NA"
    return f"[NP] ||| {target} ||| {paraphrase} ||| {features} ||| 0-0 1-1 ||| {relation}"


GOOD = [line("red boat", "scarlet boat"), line("a small cup", "cup", "ForwardEntailment", "0.25")]
BAD = {
    4: ("[NP] ||| red boat ||| scarlet boat ||| Equivalence=0.5 ||| 0-0", "5 fields instead of 6"),
    5: (line("red boat", "scarlet boat", "Synonym"), "'Synonym' is no relation"),
    6: (
        "[NP] ||| red boat ||| boat ||| AGigaSim=0.7 NotEquivalence=1 ||| 0-0 ||| Equivalence",
        "no feature Equivalence",
    ),
    7: (line("red boat", "scarlet boat", score="NA"), "'NA'"),
    8: (line("red boat", "scarlet boat", score="1.5"), "outside 0..1"),
    9: (line("red boat", "", "Independent"), "a phrase is empty"),
    10: (line("red boat", "scarlet boat", score="nan"), "outside 0..1"),
    11: ("", "1 fields"),
}


def broken_pack() -> bytes:
    lines = [*GOOD, line("one boat", "a boat").replace("a boat", "caf\udce9")]
    lines += [text for text, _ in BAD.values()] + [line("the last one", "the final one", "ReverseEntailment", "1")]
    return "\n".join(lines).encode("utf-8", "surrogateescape") + b"\n"


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_malformed_line_is_counted_and_named_and_never_fatal(tmp_path: Path, suffix: str, pack: type) -> None:
    path = tmp_path / f"ppdb-2.0-s-phrasal{suffix}"
    path.write_bytes(pack(broken_pack()))
    assert is_pack(path)
    report = PPDBReport()
    pairs = list(read_ppdb(path, report))
    assert pairs == [
        PPDBPair("red boat", "scarlet boat", "Equivalence", 0.5),
        PPDBPair("a small cup", "cup", "ForwardEntailment", 0.25),
        PPDBPair("the last one", "the final one", "ReverseEntailment", 1.0),
    ]
    assert (report.lines, report.malformed) == (12, 9)
    assert [name.split(": ")[0] for name in report.named] == [f"{path}:{number}" for number in (3, 4, 5, 6, 7)]
    assert "utf-8" in report.named[0]
    for named, number in zip(report.named[1:], (4, 5, 6, 7), strict=True):
        assert BAD[number][1] in named
    assert "12 lines of PPDB: 9 malformed" in str(report) and str(report).count(str(path)) == 5


def test_a_pack_is_read_as_a_stream(tmp_path: Path) -> None:
    path, report = tmp_path / "pack.gz", PPDBReport()
    path.write_bytes(gzip.compress("\n".join(GOOD * 50_000).encode()))
    stream = read_ppdb(path, report)
    next(stream)
    assert report.lines == 1


def test_filters_leave_out_what_the_paper_does_and_count_why() -> None:
    def pair(target: str, paraphrase: str, relation: str = "Equivalence") -> PPDBPair:
        return PPDBPair(target, paraphrase, relation, 0.5)

    report = PPDBReport()
    kept = list(
        filtered(
            [
                pair("Red  Boat", "scarlet boat"),
                pair("red boat", "scarlet boat", "Independent"),
                pair("scarlet boat", "red boat", "ReverseEntailment"),
                pair("a b", "c d", "Exclusion"),
                pair("a b", "c e", "OtherRelated"),
                pair("the [NN,1] of", "a [NN,1] of"),
                pair("one two three four five six", "six words"),
                pair("one two three four five six seven", "seven words"),
                pair("two", "one two three four five six seven"),
                pair("dog", "hound"),
                pair("big dog", "hound"),
                pair("hound", "big dog"),
                pair("big dog", "Big dog"),
            ],
            report,
        )
    )
    assert [(p.target, p.paraphrase) for p in kept] == [
        ("red boat", "scarlet boat"),
        ("scarlet boat", "red boat"),
        ("one two three four five six", "six words"),
        ("big dog", "hound"),
        ("hound", "big dog"),
    ]
    assert kept[0].relation == "Equivalence"
    assert report.dropped == {
        "repeated": 1, "of relation Exclusion": 1, "of relation OtherRelated": 1, "with a gap": 1,
        "longer than 6 words": 2, "of single words": 1, "of equal sides": 1,
    }  # fmt: skip
    assert "2 longer than 6 words" in str(report)


def test_classes_are_balanced_to_the_number_or_to_the_rarest() -> None:
    rows = [(f"p {i}", f"q {i}", PHRASE_LABELS[0 if i % 6 else 1 + i % 12 // 6]) for i in range(600)]
    assert Counter(label for *_, label in rows) == {EQUIVALENCE: 500, ENTAILMENT: 50, INDEPENDENT: 50}
    for per_class, each in ((None, 50), (20, 20), (1000, 50)):
        drawn = balanced(rows, per_class)
        assert Counter(label for *_, label in drawn) == dict.fromkeys(PHRASE_LABELS, each)
        assert len(set(drawn)) == len(drawn) and drawn == sorted(drawn, key=rows.index)
        assert drawn == balanced(iter(rows), per_class) != balanced(rows, per_class, seed=1)
    assert balanced(rows[:1], 5) == []


def test_training_and_test_of_a_pack_share_no_test_target(tmp_path: Path) -> None:
    relations = ["Equivalence", "ForwardEntailment", "ReverseEntailment", "Independent", "Exclusion"]
    lines = [
        line(f"phrase {i % 500}", f"phrase {(7 * i + i // 500) % 500}", relations[(i + i // 500) % 5], f"0.{i % 10}")
        for i in range(5000)
    ]
    path, report = tmp_path / "pack.gz", PPDBReport()
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    train, test = ppdb_training_rows(path, report), ppdb_test_pairs(path, PPDBReport())
    assert report.lines == 5000 and report.dropped["of relation Exclusion"] == 1000
    targets = {f"phrase {i}" for i in range(500) if hash_fraction(f"phrase {i}") < 0.02}
    assert set(test.first) == targets != set()
    assert not targets & {side for row in train for side in row[:2]}
    counts = Counter(label for *_, label in train)
    assert len(set(counts.values())) == 1 and set(counts) == set(PHRASE_LABELS)
    given = {tuple(text.split(" ||| ")[1:3]): text.split(" ||| ") for text in reversed(lines)}
    for first, second, gold in zip(test.first, test.second, test.gold, strict=True):
        assert f"Equivalence={gold:.1f} " in given[first, second][3]
    wanted = {"Equivalence": EQUIVALENCE, "ForwardEntailment": ENTAILMENT, "ReverseEntailment": ENTAILMENT,
              "Independent": INDEPENDENT}  # fmt: skip
    assert all(wanted[given[first, second][5]] == label for first, second, label in train)


# Pairs scored by people.


def test_the_classes_of_scores() -> None:
    labels = [HumanPair("a", "b", score).label for score in (1.0, 1.8, 2.0, 3.4, 3.5, 5.0)]
    assert labels == [INDEPENDENT, INDEPENDENT, ENTAILMENT, ENTAILMENT, EQUIVALENCE, EQUIVALENCE]


def test_the_split_shares_no_phrase_on_either_side() -> None:
    numbers = np.random.default_rng(0).integers(300, size=(900, 2))
    pairs = [HumanPair(f"p {a}", f"p {b}", 3.0) for a, b in numbers]
    train, test = split_ppdb_human(pairs)
    assert {p for p in pairs if hash_fraction(p.phrase) < 0.5} == set(test)
    phrases = [{side for p in part for side in (p.phrase, p.paraphrase)} for part in (train, test)]
    assert train and not phrases[0] & phrases[1]
    rest = [p for p in pairs if p not in set(test) and p not in set(train)]
    assert all({p.phrase, p.paraphrase} & phrases[1] for p in rest)


@pytest.mark.slow
def test_the_scored_pairs_are_as_the_catalog_says(data_dir: Path) -> None:
    """Scores are the raters' means; both parts have the stated rows; no training phrase is tested."""
    entry = catalog()["ppdb2-human"]
    form = entry.form("plain")
    paths = [data_dir / form.folder / name for name in form.files]
    if not paths[0].is_file():
        pytest.skip(f"no {paths[0]}")
    pairs = [pair for path in paths for pair in read_ppdb_human(path)]
    raters = [text.split("\t")[4] for path in paths for text in read_lines(path)]
    means = [statistics.fmean(map(float, scores.split(","))) for scores in raters]
    assert max(abs(pair.score - mean) for pair, mean in zip(pairs, means, strict=True)) < 0.006
    train, test = split_ppdb_human(pairs)
    assert {"train": len(train), "test": len(test)} == dict(entry.rows)
    rows = human_training_rows(paths)
    assert Counter(label for *_, label in rows) == dict.fromkeys(PHRASE_LABELS, 830)
    assert all(" " in first.strip() or " " in second.strip() for first, second, _ in rows)  # no pair of single words
    tested = {side for pair in test for side in (pair.phrase, pair.paraphrase)}
    assert not tested & {side for row in rows for side in row[:2]}
    assert human_training_rows(paths, 100) == human_training_rows(paths, 100)
    assert len(human_training_rows(paths, 100)) == 300
