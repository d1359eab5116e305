"""`verify`: honest results agree, and each kind of false one is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import benchmark
from benchmark.analysis.verify import verify
from benchmark.cli.main import main
from benchmark.records.folder import Records
from zoo.errors import MissingError


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of an encoder that needs no training."""
    folder = tmp_path_factory.mktemp("honest")
    tasks = "pocket-pairs,pocket-topics"
    benchmark.evaluate("bag-of-words", tasks=tasks, results=folder, controls=False, quiet=True)
    return folder


def forged(honest: Path, folder: Path, change: str) -> Path:
    """Return a copy with a higher score, or with pair scores and the score of another encoder."""
    shutil.copytree(honest, folder)
    store = Records(folder)
    record = next(r for r in store.all() if r["task"]["name"] == "pocket-pairs")
    predicted, gold = store.pair_scores(record)
    if change == "score":
        record["scores"]["main"] += 0.1  # type: ignore[index,operator]
        store.write(record, (predicted, gold))
    else:
        from benchmark.records.query import spearman

        record["scores"]["main"] = (spearman(gold, gold) or 0) / 100  # type: ignore[index]
        store.write(record, (gold, gold))
    return folder


def test_honest_results_agree(honest: Path) -> None:
    found = verify(honest)
    assert (dict(found.agree), found.differ) == ({"score": 1, "data": 1, "encoder": 1}, [])
    assert [check for check, *_ in found.unchecked] == ["score"]  # no pair scores are kept of an accuracy


@pytest.mark.parametrize(("change", "check"), [("score", "score"), ("pairs", "encoder")])
def test_each_kind_of_false_result_is_found(
    honest: Path, tmp_path: Path, change: str, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = forged(honest, tmp_path / "forged", change)
    with pytest.raises(SystemExit) as end:
        main(["verify", str(folder)])
    assert end.value.code == 1 and f"DIFFERS {check} of bag-of-words" in capsys.readouterr().out


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no finished records"):
        verify(tmp_path)
