"""Transfer tasks: SentEval's files, order and scores."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag, Cli
from torch import Tensor

from benchmark.data.readers import transfer as readers
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource
from benchmark.metrics.probe import protocol as probe
from benchmark.metrics.probe.batch import Fold
from benchmark.run.vectors import VectorStore
from benchmark.tasks import TASKS
from benchmark.tasks.base import Lookup
from benchmark.tasks.suites import all_suites
from benchmark.tasks.transfer import TransferData
from zoo.encoder import Runtime
from zoo.errors import CorruptError
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

FIXTURE = Path(__file__).parent.parent / "fixtures" / "senteval_transfer.json"
SENTEVAL = json.loads(FIXTURE.read_text("utf-8"))
# Every run of SentEval's on real vectors; that one is cheap enough for every day.
RUNS = [
    (on, setting, name)
    for on, real in SENTEVAL["real"].items()
    for setting in ("fast", "full")
    for name in real[setting]
]
DAILY = {("zoo-mini", "fast", "MRPC")}
NAMES = ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SICK-E")
# Rows of every part, and rows of class 0, 1, ... of the last one, counted in the files with grep and cut.
COUNTS = {
    "MR": ([10662], [5331, 5331]),
    "CR": ([3775], [1368, 2407]),
    "SUBJ": ([10000], [5000, 5000]),
    "MPQA": ([10606], [7294, 3312]),
    "SST2": ([67349, 872, 1821], [912, 909]),
    "SST5": ([8544, 1101, 2210], [279, 633, 389, 510, 399]),
    "TREC": ([5452, 500], [9, 138, 94, 65, 81, 113]),
    "MRPC": ([4076, 1725], [578, 1147]),
    "SICK-E": ([4500, 500, 4927], [720, 2793, 1414]),
}


def load(name: str, data_dir: Path, limit: int | None = None) -> TransferData:
    data = TASKS.get(name).load(DataSource(data_dir, hub=False), limit)
    assert isinstance(data, TransferData)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_order(name: str, data_dir: Path) -> None:
    """The known counts; in every part sentences grow longer, and the same rows stand under all three settings."""
    data = load(name, data_dir)
    assert [len(part) for part in data.parts] == COUNTS[name][0]
    assert np.bincount(data.parts[-1].labels).tolist() == COUNTS[name][1]
    for part in data.parts:
        lengths = [len(text.split()) for text in part.first]
        assert lengths == sorted(lengths)
        assert all(text == " ".join(text.split()) for text in part.texts())
        keys = list(zip(lengths, part.labels.tolist(), strict=True))
        if part.second is not None:
            seconds = [len(text.split()) for text in part.second]
            keys = list(zip(lengths, seconds, part.labels.tolist(), strict=True))  # type: ignore[arg-type]
        assert keys == sorted(keys)
    other = load(f"{name}-fast", data_dir)
    assert (other.setting, other.texts()) == ("fast", data.texts())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tested"), [("TREC", 500), ("SST2", 1821), ("MRPC", 2 * 1725), ("CR", 3775)])
def test_tested_texts_are_those_of_the_test_part(name: str, tested: int, data_dir: Path) -> None:
    """Each row of a task without a test part is tested in one of its folds."""
    data = TASKS.get(name).load(DataSource(data_dir, hub=False))
    assert len(data.tested()) == tested
    assert set(data.tested()) <= set(data.texts())


def test_order_is_stable() -> None:
    """Equal keys keep the order of the file: positive lines come first there, class 0 comes first here."""
    rows = Labelled(["b b", "a", "c c", "d", "e e"], np.array([1, 1, 1, 0, 0]))
    assert rows.ordered().first == ["d", "a", "e e", "b b", "c c"]
    pairs = Labelled(["a", "b", "c d"], np.array([1, 0, 0]), ["x", "y z", "w"])
    assert pairs.ordered().second == ["x", "y z", "w"]


@pytest.mark.slow
def test_empty_lines_are_rows(data_dir: Path) -> None:
    """SentEval counts them: CR has four, MPQA three; no other set has any."""
    empty = {name: sum(not text for text in load(name, data_dir).texts()) for name in NAMES}
    assert {name: count for name, count in empty.items() if count} == {"CR": 4, "MPQA": 3}


def test_the_odd_byte_of_trec(data_dir: Path) -> None:
    """One byte 0xf0 in the training part: latin-1, one letter, and the line is kept."""
    texts = load("TREC", data_dir).parts[0].texts()
    odd = [text for text in texts if not text.isascii()]
    assert len(odd) == 1
    assert re.findall(r"[^\x00-\x7f]", odd[0]) == ["\xf0"]


@pytest.mark.parametrize(
    ("reader", "content", "place"),
    [
        (readers.read_trec, b"NUM:date When\nXYZ:x What\n", ":2: 'XYZ' is not a class"),
        (readers.read_trec, b"NUM:date When\nNUM-date\n", ":2: not 'COARSE:fine question'"),
        (readers.read_trec, b"NUM:date\n", ":1: not 'COARSE:fine question'"),
        (readers.read_sst_binary, b"fine\t1\nbad\t2\n", ":2: '2' is not a class"),
        (readers.read_sst_binary, b"fine 1\n", ":1: 1 tab-separated"),
        (readers.read_sst_fine, b"4 good\n5 too good\n", ":2: '5' is not a class"),
        (readers.read_sst_fine, b"4\n", ":1: not 'class sentence'"),
        (readers.read_sst_fine, b"4 caf\xe9\n", ":1: byte 0xe9 is not utf-8"),
        (readers.read_mrpc, b"head\n1\t2\t3\ta\n", ":2: 4 tab-separated fields instead of 5"),
        (readers.read_mrpc, b"head\nyes\t2\t3\ta\tb\n", ":2: 'yes' is not a class"),
        (readers.read_sick_entailment, b"head\n1\ta\tb\t3.0\tMAYBE\n", ":2: 'MAYBE' is not a class"),
    ],
)
def test_faults_are_named_with_their_line(reader: object, content: bytes, place: str, tmp_path: Path) -> None:
    """Nothing is guessed or skipped."""
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(CorruptError, match=place):
        reader(path)  # type: ignore[operator]


def test_readers_on_small_files(tmp_path: Path) -> None:
    path, other = tmp_path / "x", tmp_path / "y"
    path.write_bytes(b"good  film\n\ncaf\xe9\n")
    other.write_bytes(b"bad\n")
    rows = readers.read_polar(path, other)
    assert (rows.first, rows.labels.tolist()) == (["good film", "", "café", "bad"], [1, 1, 1, 0])
    path.write_bytes(b"NUM:date When was it : then ?\nABBR:exp What is NA\xf0 ?\n")
    rows = readers.read_trec(path)
    assert (rows.first, rows.labels.tolist()) == (["When was it : then ?", "What is NAð ?"], [5, 0])
    path.write_bytes(b"so  good \t1\nbad\t0\n")
    assert readers.read_sst_binary(path).first == ["so good", "bad"]
    path.write_bytes("3 voilà , good\n".encode())
    assert (readers.read_sst_fine(path).first, readers.read_sst_fine(path).labels.tolist()) == (["voilà , good"], [3])
    path.write_bytes(b'\xef\xbb\xbfQuality\ta\tb\tc\td\n1\t7\t8\tone two\t"three\n')
    rows = readers.read_mrpc(path)
    assert (rows.first, rows.second, rows.labels.tolist()) == (["one two"], ['"three'], [1])
    path.write_bytes(b"h\n1\ta\tb\t3.0\tENTAILMENT\n2\tc\td\t1.0\tCONTRADICTION\n")
    rows = readers.read_sick_entailment(path)
    assert (rows.texts(), rows.labels.tolist()) == (["a", "c", "b", "d"], [2, 0])


@pytest.fixture(scope="module")
def zoo_mini() -> VectorStore:
    """Vectors of avg-last on the bundled weights, each text encoded once for all tests of this file."""
    cls, recipe = parse_methods("avg-last", all_recipes())[0].resolve({})
    return VectorStore(cls(recipe, Runtime()), "avg-last")


def only_if_asked(daily: bool) -> None:
    """Skip what takes long, unless everything is asked for."""
    if not daily and os.environ.get("ZOO_BENCH_TEST_TRANSFER") != "all":
        pytest.skip("takes seconds to minutes; set ZOO_BENCH_TEST_TRANSFER=all (docs/transfer.md)")


@pytest.mark.slow
@pytest.mark.parametrize(("on", "setting", "name"), RUNS)
def test_senteval_s_own_numbers_on_real_vectors(
    on: str, setting: str, name: str, data_dir: Path, request: pytest.FixtureRequest
) -> None:
    """The same vectors that SentEval's own code was given, its texts read from the same files, its accuracies."""
    only_if_asked((on, setting, name) in DAILY)
    vectors: Lookup
    if on == "zoo-mini":
        vectors = request.getfixturevalue("zoo_mini")
    else:
        cls, recipe = parse_methods("pretrained", all_recipes())[0].resolve({})
        vectors = cls(replace(recipe, model=str(request.getfixturevalue("minilm"))), Runtime()).encode
    scores = load(name if setting == "full" else f"{name}-fast", data_dir).score(vectors)
    expected = SENTEVAL["real"][on][setting][name]
    # Where this was written all are equal; other processors round otherwise, and a fit may stop elsewhere.
    assert 100 * scores["main"] == pytest.approx(expected["acc"], abs=0.3)
    assert 100 * scores["dev_accuracy"] == pytest.approx(expected["devacc"], abs=0.3)
    if "f1" in expected:
        assert 100 * scores["f1"] == pytest.approx(expected["f1"], abs=0.5)
    if "folds" in expected:
        assert [100 * part for part in scores["part_accuracies"]] == pytest.approx(expected["folds"], abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["full", "fast"])
@pytest.mark.parametrize("name", NAMES)
def test_every_fit_trains_on_senteval_s_rows(
    name: str, setting: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, order, labels and folds of all fits of a task: to the bit those that SentEval's own code hands its fits."""
    seen: set[str] = set()

    class Untrained:
        def __init__(
            self, x: Tensor, dim: int, y: np.ndarray, folds: list[Fold], of: np.ndarray, *rest: object
        ) -> None:
            self.dev = np.zeros(len(of))
            for fold in folds:
                digest = hashlib.sha256()
                for rows in (fold.train, fold.dev):
                    if rows is not None:
                        digest.update(np.ascontiguousarray(x.numpy()[rows, :dim], "<f4").tobytes())
                        digest.update(y[rows].astype("<i8").tobytes())
                seen.add(digest.hexdigest())

        def run(self) -> Untrained:
            return self

        def predict(self, fit: int, rows: np.ndarray) -> np.ndarray:
            return np.zeros(len(rows), np.int64)

    def vectors(texts: Sequence[str]) -> np.ndarray:
        return np.stack([np.frombuffer(hashlib.sha256(t.encode()).digest()[:8], "<u2").astype("f") for t in texts])

    monkeypatch.setattr(probe, "Trainer", Untrained)
    load(name if setting == "full" else f"{name}-fast", data_dir).score(vectors)
    expected = SENTEVAL["fits"][setting][name]
    assert len(seen) == expected["fits"]
    assert hashlib.sha256("\n".join(sorted(seen)).encode()).hexdigest()[:16] == expected["sha256"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TREC-fast", "MRPC-fast", "SICK-E-fast"])
def test_scores_say_what_they_are(name: str, data_dir: Path) -> None:
    """Protocol and setting, accuracy above chance as a fraction, F1 for MRPC only."""
    data = load(name, data_dir, limit=120)
    asked: set[str] = set()

    def vectors(texts: list[str]) -> np.ndarray:
        asked.update(texts)
        return Bag(Bag.Recipe(width=128), Runtime()).encode(texts)

    scores = data.score(vectors)
    assert asked == set(data.texts())
    assert (scores["protocol"], scores["setting"]) == ("senteval", name.rsplit("-", 1)[1])
    chance = np.bincount(data.parts[-1].labels).max() / data.rows
    assert 0.9 * chance < scores["main"] == scores["accuracy"] < 1
    assert ("f1" in scores) == name.startswith("MRPC")
    assert set(scores["penalties"]) <= {1e-5, 1e-4, 1e-3, 1e-2}
    if name == "TREC-fast":
        assert scores["main"] > chance + 0.1


def test_limit_leaves_enough_of_every_class(data_dir: Path) -> None:
    """--limit n: the first n of each class of each part, and at least 20 where the part has them."""
    assert np.bincount(load("MR", data_dir, 3).parts[0].labels).tolist() == [20, 20]
    assert np.bincount(load("MR", data_dir, 31).parts[0].labels).tolist() == [31, 31]
    assert np.bincount(load("TREC", data_dir, 3).parts[1].labels).tolist() == [9, 20, 20, 20, 20, 20]


def test_constant_vectors_have_no_score(data_dir: Path) -> None:
    """A collapsed encoder fails its cell with a reason instead of getting the majority class's accuracy."""
    scores = load("TREC-fast", data_dir, 20).score(lambda texts: np.ones((len(texts), 4), np.float32))
    assert (scores["main"], scores["reason"]) == (None, "constant_vectors")


@pytest.mark.slow
def test_a_run_makes_records_and_a_table(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    """The command line end to end: the table's title and note, and each record, say which protocol it is."""
    words = ["run", "--methods", "static-avg", "--suite", "transfer-fast", "--data", data_dir, "--results", tmp_path]
    answer = cli(*words, "--limit", 20, "--device", "cpu")
    assert answer.code == 0, answer.err
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "records").rglob("*.json")]
    assert {record["task"]["name"] for record in records} == set(all_suites()["transfer-fast"].tasks)
    assert {(r["scores"]["protocol"], r["scores"]["setting"]) for r in records} == {("senteval", "fast")}
    table = (tmp_path / "transfer-fast-trial.md").read_text("utf-8")
    assert "protocol senteval, fast" in table


@pytest.mark.parametrize("suite", sorted(name for name in all_suites() if name.startswith("transfer")))
def test_a_suite_is_of_one_protocol(suite: str) -> None:
    """Its title and note say which, and all its tasks are of it."""
    assert "protocol senteval" in all_suites()[suite].title and "protocol senteval" in all_suites()[suite].note
    setting = suite.removeprefix("transfer").removeprefix("-more")
    names = ("SST5", "SICK-E") if "more" in suite else ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
    assert all_suites()[suite].tasks == tuple(name + setting for name in names)
    assert ("fast" in setting) == ("fast" in all_suites()[suite].title)
