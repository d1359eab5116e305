"""The scores of each pair are kept beside the record: whole, checked, enough to have the record's score again."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag, Cli, make_record
from safetensors.numpy import load
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.metrics import relatedness
from benchmark.records import folder as results
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.records.query import scored_pairs
from benchmark.records.record import check_record
from benchmark.tasks import TASKS
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import sha256_file, sha256_json
from zoo.tensors import write_arrays

FAST = ("--precision", "fp32", "--limit", "20")
PAIRS = (np.linspace(0, 1, 30), np.arange(30) / 10)


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_run_keeps_them_and_no_text(cli: Cli, tmp_path: Path) -> None:
    """A file of two float32 columns a record whose score is a correlation over pairs, and none for other tasks."""
    assert cli("run", "--methods", "bag,constant", "--results", tmp_path, *FAST).code == 1
    store = Records(tmp_path)
    by_cell = {(r["method"]["name"], r["task"]["name"]): r for r in store.all()}
    assert len(by_cell) == 8
    kept = {key for key, record in by_cell.items() if record.get("pairs")}
    assert kept == {("bag", task) for task in ("pocket-pairs", "pocket-words", "pocket-phrases")}
    files = {path.name for path in (tmp_path / "records").rglob("*") if path.is_file() and path.suffix != ".json"}
    assert files == {by_cell[key]["pairs"]["file"] for key in kept}
    for key in kept:
        record = by_cell[key]
        path = store.pairs_file(record)
        assert path is not None
        assert record["pairs"]["sha256"] == sha256_file(path)
        content = load(gzip.decompress(path.read_bytes()))
        assert {(name, str(array.dtype)) for name, array in content.items()} == {
            ("predicted", "float32"),
            ("gold", "float32"),
        }
        predicted, gold = store.pair_scores(record)
        assert len(predicted) == len(gold) == record["task"]["rows"]
        # float32 may tie or part what float64 does not, by less than this.
        assert record["scores"]["main"] == pytest.approx(stats.spearmanr(predicted, gold).statistic, abs=1e-5)
        assert record["scores"]["all"]["pearson"] == pytest.approx(stats.pearsonr(predicted, gold).statistic, abs=1e-5)


COSINES = ["STS12", "STS16-raw", "STS-B", "SICK-R", "SimLex-999", "BiRD", "PPDB-human"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COSINES, "STS-B-regressor", "SICK-R-regressor"])
def test_real_tasks_hand_out_what_they_score(name: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of all subsets, in the order in which their texts are read: the Spearman correlation is `main`."""
    monkeypatch.setattr(relatedness, "_MOST_PASSES", 50)
    source = DataSource(data_dir, hub=False)
    task = TASKS.get(name)
    data = task.load(source)
    scores = data.score(Bag(Bag.Recipe(), Runtime()).encode)
    predicted, gold = (side.astype(np.float32) for side in scores["pairs"])
    assert len(gold) == data.rows
    assert stats.spearmanr(predicted, gold).statistic == pytest.approx(scores["main"], abs=1e-6)
    (loaded,) = load_tasks([name], source, None)
    pairs = scored_pairs(loaded, "test")
    assert np.array_equal(pairs.gold.astype(np.float32), gold)
    if name not in COSINES:  # SentEval orders the rows; what is kept is in the order of the file
        (cosines,) = load_tasks([name.removesuffix("-regressor")], source, None)
        assert pairs.first == scored_pairs(cosines, "test").first


def test_they_are_written_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in between, there is no record that names a file which is not there."""

    def full(*_: Any) -> None:
        raise ZooError("no space")

    store, record = Records(tmp_path), make_record()
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_arrays", full)
        with pytest.raises(ZooError):
            store.write(record, PAIRS)
        assert store.all() == []
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_text", full)
        with pytest.raises(ZooError):
            store.write(record, PAIRS)
    assert store.all() == []
    assert len(list((tmp_path / "records").rglob("*.pairs.safetensors.gz"))) == 1
    store.write(record, PAIRS)
    (written,) = store.all()
    assert np.array_equal(store.pair_scores(written), np.float32(PAIRS))


def test_an_old_record_is_valid_and_says_what_to_do(tmp_path: Path) -> None:
    """A record of before has no field `pairs`; the file may be left out of a copy; a damaged one is said by name."""
    store = Records(tmp_path)
    store.write(make_record("old"))
    store.write(make_record("new"), PAIRS)
    new, old = store.all()
    assert "pairs" not in old
    for record in (old, {**old, "pairs": None}):
        check_record(record, "here")
        with pytest.raises(MissingError, match=r"old on pocket-pairs.*run the method again"):
            store.pair_scores(record)
    path = store.pairs_file(new)
    assert path is not None
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptError, match=path.name):
        store.pair_scores(new)
    path.unlink()
    assert store.pairs_file(new) is None
    with pytest.raises(MissingError, match="new on pocket-pairs"):
        store.pair_scores(new)


@pytest.mark.parametrize("file", ["../x.pairs.safetensors.gz", "/etc/x.pairs.safetensors.gz", "x.json", 3])
def test_a_record_can_name_no_file_elsewhere(file: Any, tmp_path: Path) -> None:
    """The name is a bare one of the form that the runner writes."""
    store = Records(tmp_path)
    record = json.loads(store.write(make_record(), PAIRS).read_text(encoding="utf-8"))
    check_record(record, "here")
    with pytest.raises(CorruptError, match=r"pairs\.file"):
        check_record({**record, "pairs": {**record["pairs"], "file": file}}, "here")


@pytest.mark.slow
def test_rows_of_supervised_relatedness_can_be_compared(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    """A regressor's predictions serve as cosines do: ties in the table, differences, and the pairs they come from."""
    methods = "random,bag-of-words:dim=64"
    run = ("run", "--methods", methods, "--suite", "relatedness", "--data", data_dir, "--seeds", "2", "--limit", "60")
    assert cli(*run, "--out", tmp_path).code == 0
    assert "≈: tied for the best" in (tmp_path / "relatedness-trial.md").read_text("utf-8")
    arguments = ("--suite", "relatedness", "--pairs", "1", "--data", data_dir)
    done = cli("compare", "random", "bag-of-words:dim=64", "--results", tmp_path, *arguments)
    assert done.code == 0
    first = TASKS.get("SICK-R-regressor").load(DataSource(data_dir, hub=False), 60).test.first
    (row,) = re.findall(r"SICK-R-regressor: pairs whose.*?\nrow (\d+):", done.out, re.S)
    assert first[int(row) - 1] in done.out


def spoil(store: Records, how: str) -> None:
    """Put another file of pair scores beside the only record, which names it by its sha256."""
    (path,) = (store.folder / "records").rglob("*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    predicted, gold = (np.float32(side) for side in PAIRS)
    if how == "another gold":
        gold = gold + np.float32(1)
    else:
        predicted[3] = np.float32(how)
    file = path.with_name(record["pairs"]["file"])
    write_arrays(file, {"predicted": predicted, "gold": gold})
    record["pairs"]["sha256"] = sha256_file(file)
    del record["sha256"]
    path.write_text(json.dumps({**record, "sha256": sha256_json(record)}), encoding="utf-8")


@pytest.mark.parametrize(
    ("how", "packed"), [("another gold", False), ("nan", False), ("inf", False), ("nan", True), ("inf", True)]
)
def test_scores_that_mean_nothing_are_refused(
    how: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Records(tmp_path)
    store.write(make_record(), PAIRS)
    spoil(store, how)
    if packed:
        with monkeypatch.context() as patch:
            patch.setattr(results, "check_pairs", lambda *_: None)
            patch.setattr("benchmark.records.packed.check_pairs", lambda *_: None)
            pack(tmp_path)
        assert not list(tmp_path.rglob("*.gz"))
    store = Records(tmp_path)
    (record,) = store.all()
    words = "have another gold than the record says" if how == "another gold" else "are not all finite"
    with pytest.raises(CorruptError, match=f"bag on pocket-pairs: its pair scores {words}; measure it again") as error:
        store.pair_scores(record)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_what_is_not_finite_is_not_written(value: float, tmp_path: Path) -> None:
    predicted = PAIRS[0].copy()
    predicted[0] = value
    with pytest.raises(CorruptError, match="not all finite"):
        Records(tmp_path).write(make_record(), (predicted, PAIRS[1]))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def lost(folder: Path) -> Path:
    (path,) = folder.rglob("*pairs.safetensors.gz")
    path.unlink()
    return path


def cut(folder: Path) -> Path:
    (path,) = folder.rglob("*pairs.safetensors.gz")
    path.write_bytes(path.read_bytes()[:-9])
    return path


def lost_when_packed(folder: Path) -> Path:
    pack(folder)
    (folder / "pairs.parquet").unlink()
    return folder / "pairs.parquet"


def cut_when_packed(folder: Path) -> Path:
    pack(folder)
    path = folder / "pairs.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    return path


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("damage", [lost, cut, lost_when_packed, cut_when_packed])
def test_a_cell_whose_pair_scores_are_lost_is_measured_again(cli: Cli, tmp_path: Path, damage: Any) -> None:
    """A record is finished with the files that it names; else its row loses its interval and its mark."""
    words = ("run", "--methods", "bag", "--tasks", "pocket-pairs", "--no-controls", "--results", tmp_path, *FAST)
    assert cli(*words).code == 0
    (record,) = Records(tmp_path).all()
    before = Records(tmp_path).pair_scores(record)
    assert "0 cells measured, 1 kept" in cli(*words).err
    damage(tmp_path)
    answer = cli(*words)
    assert answer.code == 0 and "1 cell measured, 0 kept" in answer.err and "measured again: " in answer.err
    (record,) = Records(tmp_path).all()
    np.testing.assert_array_equal(Records(tmp_path).pair_scores(record), before)
    assert "0 cells measured, 1 kept" in cli(*words).err
