"""Readers: strict about form, faithful to text, and every complaint names file and line."""

from __future__ import annotations

import gzip
import lzma
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.catalog import dataset
from benchmark.data.readers.pairs import (
    Pairs,
    iterate_text,
    lines_of,
    read_lines,
    read_sick,
    read_sts,
    read_stsb,
    read_table,
    sample_text,
)
from zoo.errors import CorruptError, MissingError


def sts(folder: Path, lines: bytes | str, golds: bytes | str, **options: int) -> Pairs:
    """Read one subset from what its two files hold."""
    paths = []
    for name, content in (("STS.input.x.txt", lines), ("STS.gs.x.txt", golds)):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    return read_sts(*paths, **options)


@pytest.mark.parametrize(("year", "scored"), [("STS15", 3000), ("STS16", 1186)])
@pytest.mark.parametrize("form", ["tokenised", "raw"])
def test_blank_gold_lines_are_left_out_and_counted(year: str, scored: int, form: str, data_dir: Path) -> None:
    """Exactly the pairs that SentEval keeps (its `if sent[...] != ''`), and the number left out is known."""
    wanted = dataset(year).form(form)
    total, blanks, expected = 0, 0, 0
    for subset in dataset(year).subsets:
        gold = data_dir / wanted.folder / f"STS.gs.{subset}.txt"
        pairs = read_sts(data_dir / wanted.folder / f"STS.input.{subset}.txt", gold, extra_fields=2)
        raw = gold.read_bytes().split(b"\n")
        raw = raw[:-1] if raw[-1] == b"" else raw
        kept = [float(line) for line in raw if line.strip()]
        assert pairs.gold.tolist() == kept
        assert pairs.blank == len(raw) - len(kept)
        total, blanks, expected = total + len(pairs), blanks + pairs.blank, expected + len(raw)
    assert total == scored
    assert blanks == expected - scored > 0


def test_the_right_rows_are_left_out(tmp_path: Path) -> None:
    """A blank gold line takes its own pair away, not a neighbour's."""
    pairs = sts(tmp_path, "a\tb\nc\td\ne\tf\ng\th\n", "1.5\n\n  \n4\n")
    assert (pairs.first, pairs.second, pairs.gold.tolist(), pairs.blank) == (["a", "g"], ["b", "h"], [1.5, 4.0], 2)


@pytest.mark.parametrize(
    ("lines", "golds", "place"),
    [
        ("a\tb\nno tab here\n", "1\n2\n", "STS.input.x.txt:2: 1 tab-separated"),
        ("a\tb\nc\td\te\n", "1\n2\n", "STS.input.x.txt:2: 3 tab-separated"),
        ("a\tb\nno tab here\n", "1\n\n", "STS.input.x.txt:2"),
        ("a\tb\nc\td\n", "1\nfive\n", "STS.gs.x.txt:2: 'five'"),
        ("a\tb\nc\td\n", "1\n5.1\n", "STS.gs.x.txt:2.*outside 0..5"),
        ("a\tb\nc\td\n", "-0.1\n5\n", "STS.gs.x.txt:1.*outside"),
        ("a\tb\nc\td\n", "1\nnan\n", "STS.gs.x.txt:2"),
        ("a\tb\nc\td\n", "inf\n1\n", "STS.gs.x.txt:1"),
        ("a\tb\nc\td\n", "1 2\n3\n", "STS.gs.x.txt:1"),
        ("a\tb\nc\td\n", "1\n", "2 lines.*1; one of them is cut"),
        ("a\tb\n", "1\n2\n", "1 lines.*2; one of them is cut"),
        (b"a\tb\nc\td\xe9\n", "1\n2\n", "STS.input.x.txt:2: byte 0xe9 is not utf-8"),
        (b"\xff\xfea\x00\t\x00b\x00\n\x00", "1\n", "STS.input.x.txt:1: byte 0xff"),
        ("a\tb\n", b"1\x80\n", "STS.gs.x.txt:1: byte 0x80"),
    ],
)
def test_faults_are_refused_with_file_and_line(lines: bytes | str, golds: str, place: str, tmp_path: Path) -> None:
    """Nothing is guessed, skipped or repaired."""
    with pytest.raises(CorruptError, match=place):
        sts(tmp_path, lines, golds)


def test_quotes_are_text(tmp_path: Path) -> None:
    """Unbalanced quote characters neither vanish nor swallow lines."""
    content = '"he said\tshe "said"\n\'quoted"\t""\nplain\t"\n'
    pairs = sts(tmp_path, content, "1\n2\n3\n")
    assert pairs.first == ['"he said', "'quoted\"", "plain"]
    assert pairs.second == ['she "said"', '""', '"']


def test_further_fields_only_where_they_are_expected(tmp_path: Path) -> None:
    """STS16's raw files name their sources in two more fields; elsewhere a third field is a fault."""
    pairs = sts(tmp_path, "a\tb\thttp://x\thttp://y\nc\td\n", "1\n2\n", extra_fields=2)
    assert pairs.texts() == ["a", "c", "b", "d"]
    with pytest.raises(CorruptError, match=":1: 5 tab-separated fields instead of 2 to 4"):
        sts(tmp_path, "a\tb\tc\td\te\n", "1\n", extra_fields=2)


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\r"], ids=lambda s: f"{ord(s):x}")
def test_only_newline_splits_lines(separator: str, tmp_path: Path) -> None:
    """str.splitlines would shift every later pair against its score."""
    pairs = sts(tmp_path, f"a{separator}b\tc\nd\te{separator}f\n", "1\n2\n")
    assert pairs.first == [f"a{separator}b", "d"]
    assert pairs.second == ["c", f"e{separator}f"]


def test_crlf_bom_and_a_missing_last_newline(tmp_path: Path) -> None:
    """Files from other systems read the same."""
    plain = sts(tmp_path, "a\tb\nc\td\n", "1\n2\n")
    for lines, golds in (
        (b"a\tb\r\nc\td\r\n", b"1\r\n2\r\n"),
        (b"\xef\xbb\xbfa\tb\nc\td\n", b"\xef\xbb\xbf1\n2\n"),
        (b"a\tb\nc\td", b"1\n2"),
    ):
        pairs = sts(tmp_path, lines, golds)
        assert (pairs.first, pairs.second, pairs.gold.tolist()) == (plain.first, plain.second, plain.gold.tolist())


def test_a_declared_encoding_is_used(tmp_path: Path) -> None:
    """SentEval's latin-1 files are read as latin-1; as UTF-8 their line is named."""
    path = tmp_path / "x"
    path.write_bytes(b"one\ntwo\nclich\xe9\n")
    assert read_lines(path, "latin-1") == ["one", "two", "cliché"]
    with pytest.raises(CorruptError, match="x:3: byte 0xe9 is not utf-8"):
        read_lines(path)
    with pytest.raises(CorruptError, match="x:3: byte 0xe9 is not ascii"):
        read_lines(path, "ascii")


def test_stsb_and_sick_rows(tmp_path: Path) -> None:
    """Fields by position; a short line, a wrong score, a score out of SICK's range are named."""
    path = tmp_path / "f"
    path.write_text('main\tMSRvid\t2012\t1\t2.5\ta "b\tc\nmain\tx\t2012\t2\t0\td\te\n')
    pairs = read_stsb(path)
    assert (pairs.first, pairs.second, pairs.gold.tolist()) == (['a "b', "d"], ["c", "e"], [2.5, 0.0])
    path.write_text("main\tMSRvid\t2012\t1\t2.5\ta\tc\nmain\tMSRvid\t2012\t1\ta\tc\n")
    with pytest.raises(CorruptError, match="f:2: 6 tab-separated"):
        read_stsb(path)
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    path.write_bytes((header + "1\ta\tb\t4.5\tNEUTRAL\n2\tc\td\t1\tENTAILMENT\n").replace("\n", "\r\n").encode())
    sick = read_sick(path)
    assert (sick.first, sick.second, sick.gold.tolist()) == (["a", "c"], ["b", "d"], [4.5, 1.0])
    path.write_text(header + "1\ta\tb\t4.5\tNEUTRAL\n2\tc\td\t0.5\tENTAILMENT\n")
    with pytest.raises(CorruptError, match=r"f:3: score 0.5 is outside 1..5"):
        read_sick(path)


def test_a_table_needs_its_header(tmp_path: Path) -> None:
    """The header is checked, rows are counted from 2."""
    path = tmp_path / "t.tsv"
    path.write_text("score\tword1\tword2\n1\ta\tb\n2\tc\n")
    with pytest.raises(CorruptError, match=r"t.tsv:3: 2 tab"):
        read_table(path, ["score", "word1", "word2"])
    for content in ("", "score,word1,word2\n", "word1\tword2\tscore\n"):
        path.write_text(content)
        with pytest.raises(CorruptError, match=r"t.tsv:1"):
            read_table(path, ["score", "word1", "word2"])


def test_head_is_the_first_rows() -> None:
    """--limit takes a prefix; more than there is takes all."""
    pairs = Pairs(["a", "b", "c"], ["d", "e", "f"], np.array([1.0, 2.0, 3.0]), 4)
    assert pairs.head(2).texts() == ["a", "b", "d", "e"]
    assert pairs.head(2).gold.tolist() == [1.0, 2.0]
    assert len(pairs.head(None)) == len(pairs.head(9)) == 3


TEXT = 'first line\n\n  second "line  \r\nthird\u2028still third\n\t\nfourth \x85 still fourth\nlast without newline'
SENTENCES = ["first line", 'second "line', "third\u2028still third", "fourth \x85 still fourth", "last without newline"]


def write_corpus(path: Path, text: str) -> Path:
    openers = {".xz": lzma.open, ".gz": gzip.open}
    with openers.get(path.suffix, open)(path, "wb") as file:
        file.write(text.encode())
    return path


@pytest.mark.parametrize("suffix", [".txt", ".txt.xz", ".txt.gz"])
def test_corpora_are_read_plain_or_packed(suffix: str, tmp_path: Path) -> None:
    """One sentence a newline; blanks around it and empty lines go."""
    assert list(iterate_text(write_corpus(tmp_path / f"c{suffix}", TEXT))) == SENTENCES


def test_a_byte_order_mark_is_no_part_of_the_first_sentence(tmp_path: Path) -> None:
    """Text files from Windows begin with one."""
    assert list(iterate_text(write_corpus(tmp_path / "c.txt", "\ufeff" + TEXT))) == SENTENCES


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_a_truncated_packed_corpus_is_refused(suffix: str, tmp_path: Path) -> None:
    generator = random.Random(0)
    text = "".join(f"{generator.random()} sentence\n" for _ in range(5000))
    path = write_corpus(tmp_path / f"c.txt{suffix}", text)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptError, match=r"c.txt"):
        list(iterate_text(path))
    path.write_text("not packed at all\n")
    with pytest.raises(CorruptError, match=r"c.txt"):
        list(iterate_text(path))


def test_wrong_bytes_folders_and_missing_files_are_told(tmp_path: Path) -> None:
    """What a corpus file has wrong is told with its place."""
    path = tmp_path / "c.txt"
    path.write_bytes(b"fine\nclich\xe9\n")
    with pytest.raises(CorruptError, match=r"c\.txt:2: byte 0xe9 is not utf-8"):
        list(iterate_text(path))
    with pytest.raises(MissingError, match=tmp_path.name):
        list(iterate_text(tmp_path))
    with pytest.raises(MissingError, match=r"nowhere.txt"):
        list(iterate_text(tmp_path / "nowhere.txt"))


def test_sampling_is_repeatable_and_without_replacement(tmp_path: Path) -> None:
    """The same lines for the same seed, each at most once; other seeds draw others; too many are all."""
    lines = [f"sentence {i}" for i in range(500)]
    plain = write_corpus(tmp_path / "c.txt", "\n".join(lines))
    packed = write_corpus(tmp_path / "c.txt.xz", "\n\n".join(lines) + "\n")
    drawn = sample_text(iterate_text(plain), 100)
    assert drawn == sample_text(iterate_text(plain), 100) == sample_text(lines_of(packed), 100)
    assert len(set(drawn)) == 100
    assert set(drawn) <= set(lines)
    assert set(drawn) != set(lines[:100])
    assert set(sample_text(lines, 100, seed=1)) != set(drawn)
    assert sample_text(lines, None) == sample_text(lines, 500) == sample_text(lines, 9999) == lines


def test_sampling_is_fair() -> None:
    """Every line is drawn about equally often (chi-squared over 20 lines, 2000 seeds)."""
    from scipy.stats import chisquare

    lines = [f"s{i}" for i in range(20)]
    counts = Counter(line for seed in range(2000) for line in sample_text(lines, 5, seed))
    assert len(counts) == 20
    assert chisquare(list(counts.values())).pvalue > 1e-4
