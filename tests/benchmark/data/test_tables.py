"""Tables of users: every row is read as what it is, and what cannot be read is named with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from benchmark.data.corpora import load_corpus, load_pairs
from benchmark.data.readers.pairs import read_pairs
from benchmark.data.readers.roles import Question
from benchmark.data.readers.tables import read
from benchmark.data.sources import DataSource
from zoo.errors import CorruptError, UsageError

HERE = DataSource(None, hub=False)
SCORED = "0.5\tA man, who waits.\tHe sings.\n4\tB is here.\tC is there.\n"
NLI = "A man.\tA cat.\tentailment\nA man.\tIt rains.\t-\nA dog.\tA cow.\tcontradiction\nA cow.\tIt is.\tneutral\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


SAME: dict[str, tuple[str, str | bytes]] = {
    "no header": ("a.tsv", SCORED),
    "header": ("a.tsv", "score\tsentence1\tsentence2\n" + SCORED),
    "other names": ("a.tsv", "gold\tleft\tright\n" + SCORED),
    "txt": ("a.txt", SCORED),
    "Windows": ("a.tsv", b"\xef\xbb\xbf" + ("score\ts1\ts2\n" + SCORED).replace("\n", "\r\n").encode()),
    "csv, the score last": (
        "a.csv",
        'sentence1,sentence2,score\n"A man, who waits.",He sings.,0.5\n\nB is here.,C is there.,4\n',
    ),
    "csv without header": ("a.csv", '"A man, who waits.",He sings.,0.5\nB is here.,C is there.,4\n'),
    "semicolons": ("a.csv", "Satz 1;Satz 2;Score\nA man, who waits.;He sings.;0.5\nB is here.;C is there.;4\n"),
    "decimal commas": ("a.csv", "Satz 1;Satz 2;Score\nA man, who waits.;He sings.;0,5\nB is here.;C is there.;4,0\n"),
    "index of pandas": (
        "a.csv",
        ',text_a,text_b,gold\n0,"A man, who waits.",He sings.,0.5\n1,B is here.,C is there.,4\n',
    ),
    "jsonl": (
        "a.jsonl",
        '{"sentence1": "A man, who waits.", "sentence2": "He sings.", "score": 0.5, "vector": [1]}\n'
        '{"score": 4, "sentence1": "B is here.", "sentence2": "C is there."}\n',
    ),
    "lists": ("a.jsonl", '[0.5, "A man, who waits.", "He sings."]\n[4, "B is here.", "C is there."]\n'),
    "json": ("a.json", '[{"s1": "A man, who waits.", "s2": "He sings.", "label": 0.5},\n'
             '{"s1": "B is here.", "s2": "C is there.", "label": 4}]'),
    "gzip": ("a.csv.gz", gzip.compress(b's1,s2,score\n"A man, who waits.",He sings.,0.5\nB is here.,C is there.,4\n')),
    "all quoted": ("a.tsv", '"0.5"\t"A man, who waits."\t"He sings."\n"4"\t"B is here."\t"C is there."\n'),
}  # fmt: skip


@pytest.mark.parametrize("form", SAME)
def test_the_same_scored_pairs_in_every_form(form: str, tmp_path: Path) -> None:
    """No form loses its first pair or makes one of its header, for a task and for training."""
    path = written(tmp_path, *SAME[form])
    pairs = read_pairs(path)
    assert pairs.first == ["A man, who waits.", "B is here."] and pairs.second == ["He sings.", "C is there."]
    assert pairs.gold.tolist() == [0.5, 4]
    assert "2 scored pairs" in pairs.report and path.name in pairs.report
    assert load_pairs(str(path), HERE, None).scores == [0.5, 4]


def test_a_header_of_unknown_names_is_seen_above_sentences(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "Frage,Antwort\nWer singt?,Er singt.\nWo ist B?,B ist hier.\n")
    with pytest.raises(Question, match=r"1\. --columns Frage,Antwort"):
        read(path)
    table = read(path, "Frage,Antwort")
    assert table.frame["first"].tolist() == ["Wer singt?", "Wo ist B?"]


def test_parquet_is_read_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    frame = pd.DataFrame({"query": ["a b", "c d"], "document": ["e", None], "idx": [7, 9]})
    frame.to_parquet(path)
    table = read(path)
    assert (table.kind, len(table.frame), table.frame["second"].tolist()) == ("pairs", 1, ["e"])
    assert "query, document" in table.report and "1 with an empty field" in table.report
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptError, match=r"pairs\.parquet"):
        read(path)


def test_labels_of_natural_language_inference(tmp_path: Path) -> None:
    """Words in any case, the hub's numbers, SNLI's own columns; pairs without a majority are left out."""
    snli = "gold_label\tsentence1_parse\tsentence1\tsentence2\tlabel1\n"
    forms = {
        "plain.tsv": NLI,
        "upper.tsv": NLI.replace("entailment", "ENTAILMENT"),
        "numbers.tsv": NLI.replace("entailment", "0")
        .replace("-", "-1")
        .replace("contradiction", "2")
        .replace("neutral", "1"),
        "snli.txt": snli
        + "".join(
            f"{label}\t(ROOT {first})\t{first}\t{second}\t{label}\n"
            for first, second, label in (line.split("\t") for line in NLI.splitlines())
        ),
    }
    for name, content in forms.items():
        lines: list[str] = []
        corpus = load_pairs(str(written(tmp_path, name, content)), HERE, None, say=lines.append)
        assert list(corpus.labels or ()) == ["entailment", "contradiction", "neutral"], name
        assert corpus.sentences == ["A man.", "A cat.", "A dog.", "A cow.", "A cow.", "It is."]
        assert "1 with an empty field or no label left out" in lines[0]


def test_triples_are_pairs_of_both_labels(tmp_path: Path) -> None:
    """SimCSE's file: a sentence, an equal and an opposite one."""
    path = written(tmp_path, "nli.csv", 'sent0,sent1,hard_neg\na b,"c ""d""",e\nf,g,h\n')
    corpus = load_pairs(str(path), HERE, None)
    assert corpus.sentences == ["a b", 'c "d"', "a b", "e", "f", "g", "f", "h"]
    assert list(corpus.labels or ()) == ["entailment", "contradiction"] * 2


def test_other_kinds_of_rows(tmp_path: Path) -> None:
    """What `choose` reads: duplicates by 0 and 1, and classes of texts."""
    quora = "id,question1,question2,is_duplicate\n5,How?,Why?,0\n9,Who?,Whom?,1\n"
    table = read(written(tmp_path, "quora.csv", quora))
    assert (table.kind, table.frame["score"].tolist()) == ("binary pairs", [0, 1])
    lines = "".join(f"The text number {n}.\t{'sport' if n % 2 else 'art'}\n" for n in range(8))
    table = read(written(tmp_path, "classes.tsv", lines), "1,2", "label")
    assert (table.kind, table.frame["label"].tolist()) == ("labelled texts", ["art", "sport"] * 4)


def test_quotes_are_text_unless_the_writer_quoted_fields(tmp_path: Path) -> None:
    rows = '"He said no.\tno "one" knows\t1\n"Stop."\tGo!\t2\n'
    assert read_pairs(written(tmp_path, "plain.tsv", rows)).first == ['"He said no.', '"Stop."']
    rows = 'x\t"He said ""no""."\t1\ny\tGo!\t2\n'
    assert read_pairs(written(tmp_path, "quoted.tsv", rows)).second == ['He said "no".', "Go!"]


def test_columns_are_named_by_the_user(tmp_path: Path) -> None:
    path = written(tmp_path, "many.csv", "a,b,c,d\nthe one,x y,more,3\nthe other,z u,less,4\n")
    with pytest.raises(UsageError, match=r"(?s)many\.csv: .*a, b, c, d.*--columns"):
        read(path)
    table = read(path, "c,A,d")
    assert (table.kind, table.frame["first"].tolist(), table.frame["second"].tolist()) == (
        "scored pairs",
        ["more", "less"],
        ["the one", "the other"],
    )
    assert read(path, "3,1,4").frame.equals(table.frame)
    with pytest.raises(UsageError, match="'e' is not there"):
        read(path, "a,e")
    file = written(tmp_path, "own.csv", 'satz1;satz2;wert\n"Ein Hund; braun";Ein Tier;0\n')  # no name that is known
    assert read(file, "satz1,satz2,wert").report == "own.csv: columns: satz1, satz2, wert; 1 binary pairs"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.tsv", "\n\n1\ta\tb\n\n2\ta\n", r":5: 2 fields instead of 3, separated by tabs"),
        ("a.tsv", "score\ts1\ts2\n1\ta\tb\nhigh\ta\tb\n3\ta\tb\n", r":3: 'high' is not a score"),
        ("a.csv", "s1,s2,score\na,b,1\nc,d, e,2\n", r":3: 4 fields instead of 3, separated by commas"),
        ("a.csv", 's1,s2,score\n"a\nb",c,1\n"d" e,f,2\n', r":4: "),
        ("a.csv", b"s1,s2,score\na,caf\xe9,1\n", r":2: byte 0xe9 is not utf-8.* Windows"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    name: str, content: str | bytes, place: str, tmp_path: Path
) -> None:
    with pytest.raises(CorruptError, match=name.replace(".", r"\.") + ".*" + place):
        load_pairs(str(written(tmp_path, name, content)), HERE, None)


def test_a_corpus_is_the_texts_of_a_table(tmp_path: Path) -> None:
    """Neither header nor quotes nor syntax is trained on; plain text is as it was."""
    texts = ["A man, who waits.", 'He said "no".']
    forms = {
        "a.csv": 'text,label\n"A man, who waits.",1\n"He said ""no"".",\n',
        "b.csv": '"A man, who waits."\n"He said ""no""."\n',
        "a.jsonl": '{"id": 3, "text": "A man, who waits."}\n{"id": 9, "text": "He said \\"no\\"."}\n',
        "a.txt": 'A man, who waits.\nHe said "no".\n',
    }
    digests = set()
    for name, content in forms.items():
        corpus = load_corpus(str(written(tmp_path, name, content)), HERE, None)
        assert corpus.sentences == texts, name
        digests.add(corpus.sha256())
    assert len(digests) == 1
    with pytest.raises(UsageError, match=r"b\.txt is plain text"):
        load_corpus(str(written(tmp_path, "b.txt", "a\tb\n")), HERE, None, columns="a")
