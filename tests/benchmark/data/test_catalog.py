"""The catalog, data that are missing, and tables of one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes import Cli
from hypothesis import given
from hypothesis import strategies as st

from benchmark.checking.tolerances import Verdict, Verified
from benchmark.data.catalog import catalog, dataset
from benchmark.data.readers.pairs import iterate_text
from benchmark.data.readers.roles import Question
from benchmark.data.readers.tables import read
from benchmark.data.sources import DataSource, in_one
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.suites import all_suites, choose_tasks, suites_named
from zoo.errors import MissingError

# The catalog describes what is there: complete entries, right counts, the same gold in both spellings.

# Scored test pairs as SentEval and the papers have them (docs/protocol.md; SICK's and STS-B's own papers).
PAPERS = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STS-B": 1379, "SICK-R": 4927}


@pytest.mark.parametrize("name", list(catalog()))
def test_every_entry_is_complete(name: str) -> None:
    """Licence, title, files with checksums, counts that add up."""
    entry = catalog()[name]
    assert entry.licence.strip()
    assert entry.title.strip()
    assert entry.forms
    unknown = not all(form.known for form in entry.forms.values())
    assert unknown or (entry.lines if entry.kind in ("corpus", "nli") else entry.rows)
    if entry.subsets:
        assert sum(entry.subsets.values()) == entry.rows["test"]
    for form in entry.forms.values():
        assert form.files
        assert not Path(form.folder).is_absolute()
        assert ".." not in Path(form.folder).parts
        for file, sha256 in form.files.items():
            assert sha256 is None or re.fullmatch(r"[0-9a-f]{64}", sha256)
            assert Path(file).name == file
        if form.hub is not None and form.hub.get("revision") is not None:
            assert re.fullmatch(r"[0-9a-f]{40}", form.hub["revision"])


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_loads_with_the_counts_of_the_catalog(name: str, data_dir: Path) -> None:
    """Every built-in task reads its data, from verified files, with the stated number of rows."""
    task = TASKS.get(name)
    # Its six data sets are checked for themselves, and test_ranked_tasks.py counts its pairs.
    if name.startswith("evalrank"):
        return
    if task.dataset not in catalog():
        remedy = {"PPDB": "put a phrasal pack", "heros-order": "put the file"}[name]  # their files have no known sha256
        with pytest.raises(MissingError, match=remedy):
            task.load(DataSource(data_dir, hub=False))
        return
    data = task.load(DataSource(data_dir, hub=False))
    split = "dev" if name == "STS-B-dev" else "test"
    if name.removesuffix("-raw") == "stsb-dev-disjoint":  # 1,500 pairs without those that are test pairs as well
        assert data.rows == 369
        return
    if name.removesuffix("-raw") == "stsb-once":  # 1,379 test pairs without those that occur twice
        assert data.rows == 1362
        return
    assert data.rows == catalog()[task.dataset].rows[split]
    expected = PAPERS.get(name.removesuffix("-raw"))
    assert expected in (None, data.rows)
    if isinstance(data, PairsData):
        assert all(text.strip() for text in data.texts())
        subsets = catalog()[task.dataset].subsets
        assert {k: len(v) for k, v in data.subsets.items()} == dict(subsets or {split: data.rows})


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PAPERS))
def test_raw_and_tokenised_are_the_same_pairs(name: str, data_dir: Path) -> None:
    """The same gold in the same order; the texts differ in spelling only."""
    source = DataSource(data_dir, hub=False)
    tokenised, raw = (TASKS.get(task).load(source) for task in (name, f"{name}-raw"))
    assert isinstance(tokenised, PairsData)
    assert isinstance(raw, PairsData)
    assert list(tokenised.subsets) == list(raw.subsets)
    differing = 0
    for subset, pairs in tokenised.subsets.items():
        other = raw.subsets[subset]
        assert np.array_equal(pairs.gold, other.gold)
        differing += sum(a != b for a, b in zip(pairs.texts(), other.texts(), strict=True))
        words = [[set(re.findall(r"[a-z]{3,}", t.lower())) for t in p.texts()] for p in (pairs, other)]
        shared = [len(a & b) / max(len(a | b), 1) for a, b in zip(*words, strict=True) if a | b]
        assert np.mean(shared) > 0.97
    assert differing > 0
    assert (tokenised.dev is None) == (raw.dev is None)
    if tokenised.dev is not None and raw.dev is not None:
        assert np.array_equal(tokenised.dev.gold, raw.dev.gold)


def test_suites_name_known_things() -> None:
    """Every suite's tasks, dev task and corpus exist; a column for every task."""
    for suite in all_suites().values():
        assert set(suite.tasks) <= set(TASKS.names())
        assert suite.dev in TASKS.names()
        assert catalog()[suite.corpus].kind == "corpus"
        assert len(suite.columns) == len(suite.tasks) == len(set(suite.tasks))


def test_pocket_text_has_the_stated_lines() -> None:
    """The bundled corpus has as many sentences as the catalog says."""
    located = DataSource(None, hub=False).locate("pocket-text", "plain")
    assert located.source == "bundled"
    (path,) = located.files.values()
    assert sum(1 for _ in iterate_text(path)) == catalog()["pocket-text"].lines


# What a command prints where data is not: each cause once, with the places that were searched and the right folder.


def lay_out(root: Path, suite: str, below: str) -> None:
    """Make a first file of each data set of a suite in the layout `below` (senteval, its downstream, SentEval ...)."""
    for task in choose_tasks(suites_named(suite)[0], None):
        form = dataset(TASKS.get(task).dataset).form(TASKS.get(task).form)
        folder = Path(form.folder)
        if folder.parts[0] == "senteval":
            folder = Path(below, *folder.parts[1:]) if below in ("", "SentEval") else Path(below, *folder.parts[2:])
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / next(iter(form.files))).write_text("0", encoding="utf-8")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("suite", "below"), [("sts", ""), ("sts", "SentEval"), ("transfer", "senteval/downstream"), ("words", "")]
)
@pytest.mark.parametrize("given", ["", "data/other", "data/other/one/deeper", "data/senteval"])
def test_a_folder_near_the_users_that_has_the_data_is_named_once(
    suite: str, below: str, given: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level too high, or up to three too low: a line for all data sets, whose command finds them."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    right = tmp_path / "data"
    lay_out(right, suite, below)
    folder = tmp_path / given
    folder.mkdir(parents=True, exist_ok=True)
    words = ("run", "--methods", "random", "--suite", suite, "--results", tmp_path / "out")
    answer = cli(*words, "--data", folder)
    if below == "senteval/downstream" and given == "data/senteval":
        assert answer.code == 1 and "not under" not in answer.err
        return
    lines = [line for line in answer.err.splitlines() if line.startswith("n/a: ")]
    assert len(lines) == 1 and lines[0].endswith(f"not under {folder}, but under {right}: give --data {right}.")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "other-cache"))
    assert "not under" not in cli(*words, "--data", right).err


@given(st.lists(st.text("aA1 :().,/", min_size=1), min_size=1, max_size=3))
def test_a_cause_of_a_task_is_said_as_it_is_once(parts: list[str]) -> None:
    reason = ": ".join(parts)
    assert in_one([reason]) == in_one([reason, reason]) == reason


@pytest.mark.usefixtures("no_network")
def test_data_that_is_nowhere_near_is_said_to_be_in_no_place_that_was_searched(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", "sts", "")
    far = tmp_path / "far" / "away"
    far.mkdir(parents=True)
    with pytest.raises(MissingError, match=f"not under {far}, not in the cache"):
        DataSource(far, hub=False, cache=tmp_path / "cache").locate("STS12", "tokenised")


@pytest.mark.parametrize(
    "words",
    [
        ("data", "fetch"),
        ("data", "texts", "--suite", "transfer,sts", "--out", "texts.txt"),
        ("run", "--methods", "random,bag-of-words", "--seeds", "2", "--suite", "sts,words", "--results", "out"),
        ("run", "--methods", "random", "--suite", "transfer", "--results", "out", "--controls"),
        # A wheel has zoo-small; zoo-mini is in the cache of other tests.
        ("run", "--methods=simcse,whitening", "--backbone=zoo-small", "--suite=sts", "--results=out", "--controls"),
    ],
)
def test_without_data_each_command_says_so_in_at_most_three_lines(
    words: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ZOO_BENCH_DATA", raising=False)
    answer = cli(*words)
    lines = [line for line in (answer.err + answer.out).splitlines() if "not in the cache" in line]
    assert answer.code == 1 and 1 <= len(lines) <= 3
    assert all(str(tmp_path / "cache" / "data") in line for line in lines)
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) < 280


@pytest.mark.parametrize("names", [("STS12", "STS13"), ("MR", "CR", "SST2", "MPQA", "TREC", "MRPC")])
def test_a_verification_without_data_names_a_cause_once(names: tuple[str, ...], tmp_path: Path) -> None:
    verdicts = []
    for name in names:
        with pytest.raises(MissingError) as error:
            DataSource(tmp_path, hub=False, cache=tmp_path / "cache").locate(name, "tokenised")
        verdicts += [Verdict("not verifiable", row, f"{row} on {name}", str(error.value)) for row in ("cls", "sif")]
    line, total, *_ = str(Verified(verdicts)).splitlines()
    assert line.startswith(f"not verifiable: {2 * len(names)} cells of cls, sif: {names[0]} (tokenised, senteval/")
    assert line.count(str(tmp_path / "cache")) == 1 and f", {names[1]}" in line
    assert total == f"{2 * len(names)} cells: 0 verified, 0 differs, {2 * len(names)} not verifiable."


# Tables as tools write them: each is answered as it is meant, or asked with what is meant as the first answer.

ROWS = range(60)
# The forms of a column: three kinds of texts, a score, 0 or 1, words, classes, ids, dates, counts, chats.
CELLS: dict[str, Any] = {
    "t": lambda i: f"how does number {i} work",
    "u": lambda i: f"number {i} works like that",
    "v": lambda i: f"nothing here is about {i % 7} or {i}",
    "s": lambda i: i % 6 / 5,
    "b": lambda i: i % 2,
    "y": lambda i: ("yes", "no")[i % 2],
    "l": lambda i: ("entailment", "neutral", "contradiction")[i % 3],
    "c": lambda i: ("red", "blue", "old", "new")[i % 4],
    "w": lambda i: ("low", "mid", "high")[i % 3],
    "i": lambda i: 1000 + i,
    "h": lambda i: f"A{i:04}Z",
    "d": lambda i: f"2026-03-{1 + i % 28:02}",
    "k": lambda i: "accept",
    "n": lambda i: i * 7 % 18,
    "m": lambda i: [
        {"role": "user", "content": f"how does {i} work"},
        {"role": "assistant", "content": f"{i} works so"},
    ],
    "f": lambda i: [{"from": "human", "value": f"how does {i} work"}, {"from": "gpt", "value": f"{i} works so"}],
    "p": lambda i: [f"number {i} works like that"],
    "g": lambda i: [f"it is {i}", f"it was {i}"],
}
# The columns with their forms, and the kind; or the first answer of the question, and of what kind it is.
TABLES = [
    ("id:i annotator:c text1:t text2:u similar:y lead_time:n", "binary pairs"),
    ("text:t label:c _input_hash:i _task_hash:i answer:k", "labelled texts"),
    ("id:i text:t label:c Comments:v", "labelled texts"),
    ("HITId:h WorkerId:h Input.sentence1:t Input.sentence2:u Answer.score:s", "scored pairs"),
    ("id:i text:t intent:c", "labelled texts"),
    ("Nr.:i Satz A:t Satz B:u Score:s Notes:c", "scored pairs"),
    ("Ticket 1:t Ticket 2:u duplicate:y date:d", "binary pairs"),
    ("Question:t Answer:u", "pairs"),
    ("query:t document:u relevance:n", "judged pairs"),
    ("qid:h query:t docid:h passage:u is_selected:b", "judged pairs"),
    ("id:i qid1:i qid2:i question1:t question2:u is_duplicate:b", "binary pairs"),
    ("premise:t hypothesis:u label:l", "labelled pairs"),
    ("gold_label:l sentence1:t sentence2:u pairID:h", "labelled pairs"),
    ("anchor:t positive:u negative:v", "triples"),
    ("query:t pos:p neg:g", "triples"),
    ("query_id:h query:t positive_passages:p negative_passages:g", "triples"),
    ("sent0:t sent1:u hard_neg:v", "triples"),
    ("tweet:t label:c", "labelled texts"),
    ("messages:m", "pairs"),
    ("conversations:f", "pairs"),
    ("idx:i sentence:t", "texts"),
    ("title:t text:u url:h", "texts"),
    ("query:t title:u position:n clicks:n", ("query,title,clicks", "retrieval")),
    ("search term:t product:u rating:s", ("search term,product,rating", "score")),
    ("ticket a:t ticket b:u same issue:b", ("ticket a,ticket b,same issue", "binary")),
    ("Anfrage:t Kategorie:c", ("Anfrage,Kategorie", "label")),
    ("mine:t yours:u verdict:y", ("mine,yours,verdict", "binary")),
    ("prompt:t response:u", ("prompt,response", "retrieval")),
    ("frage:t antwort:u", ("frage,antwort", "retrieval")),
    ("text:t team:c floor:w", ("text,floor", "label")),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "meant"), TABLES, ids=lambda value: str(value)[:60])
def test_a_table_of_a_tool_is_answered_or_asked_rightly(columns: str, meant: Any) -> None:
    forms = dict(re.findall(r"(\S.*?):(\w)(?: |$)", columns))
    frame = pd.DataFrame({name: [CELLS[form](i) for i in ROWS] for name, form in forms.items()})
    if isinstance(meant, str):
        assert read(frame).kind == meant
        return
    with pytest.raises(Question) as asked:
        read(frame)
    assert (asked.value.readings[0].columns, asked.value.readings[0].kind) == meant
