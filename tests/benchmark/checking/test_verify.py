"""`verify`: honest results are verified, and each kind of forged ones is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fakes import make_record

import benchmark
import zoo
from benchmark.checking import tolerances
from benchmark.checking import verify as verifying
from benchmark.checking.bound import DifferenceError
from benchmark.checking.tolerances import compare_score, compare_shared
from benchmark.checking.verify import verify
from benchmark.cli.main import main
from benchmark.metrics.correlation import ranks
from benchmark.metrics.items import accuracy_of, items_part, right_of
from benchmark.records.folder import Records
from benchmark.records.query import spearman
from benchmark.records.record import Record
from benchmark.run.rows import Row, resolve_methods
from benchmark.tasks.base import PairScores
from zoo.errors import MissingError
from zoo.machine import environment
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

TASKS = "pocket-pairs,pocket-topics"
WORKFLOW = Path(__file__).parents[3] / "examples" / "verify-results.yml"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of encoders that need no training, one of them with seeds, and of a trained one."""
    folder = tmp_path_factory.mktemp("honest")
    options: dict[str, Any] = {"results": folder, "controls": False, "quiet": True, "device": "cpu"}
    benchmark.evaluate("cls,random", tasks=TASKS, seeds=2, **options)
    benchmark.evaluate("simcse:batch_size=8", tasks="pocket-pairs", seeds=1, train_sentences=8, **options)
    return folder


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["verify", *map(str, arguments)])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_honest_results_are_verified(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(honest) == 0
    printed = capsys.readouterr().out
    assert "7 cells: 7 verified, 0 differs, 0 not verifiable." in printed
    assert "does not show that an encoder saw no test text" in printed


def test_a_score_is_of_the_very_values_that_are_kept(honest: Path) -> None:
    store = Records(honest)
    pairs = [record for record in store.all() if record.get("pairs")]
    assert len(pairs) == 4
    for record in pairs:
        assert record["scores"] is not None
        assert 100 * (record["scores"]["main"] or 0) == pytest.approx(spearman(*store.pair_scores(record)), abs=1e-10)


def spread(predicted: Any, gold: Any, kept: Any = ()) -> Any:
    """Return the predictions sorted as the gold scores are, except for the rows `kept`."""
    others = np.setdiff1d(np.arange(len(gold)), kept)
    forged = predicted.copy()
    forged[others[np.argsort(gold[others], kind="stable")]] = np.sort(predicted[others])
    return forged


def all_but_a_known_sample(record: Record, predicted: Any, gold: Any) -> PairScores:
    """Keep 64 pairs at places that everybody can compute, and sort the rest."""
    return spread(predicted, gold, np.unique(np.linspace(0, len(gold) - 1, 64).astype(int))), gold


def gold_of_the_predictions(record: Record, predicted: Any, gold: Any) -> PairScores:
    """Replace the gold scores by the predictions' ranks."""
    return predicted, ranks(predicted)


def no_pairs(record: Record, predicted: Any, gold: Any) -> None:
    """Type a score, and state that no pair scores are kept."""
    record["pairs"] = None


def typed(record: Record, predicted: Any, gold: Any) -> PairScores:
    """Type a score, and keep the pair scores."""
    return predicted, gold


Forgery = Callable[[Record, Any, Any], PairScores | None]


def alone(store: Records, names: Sequence[str], task: str = "pocket-pairs") -> Path:
    """Leave in a folder the cells of methods on a task."""
    for record in store.all():
        if record["task"]["name"] != task or not record["method"]["name"].startswith(tuple(names)):
            store.path(record["method"]["name"], record["task"]["name"], record["key"]).unlink()
    return store.folder


def forged(honest: Path, folder: Path, name: str, forgery: Forgery, beside: Sequence[str] = ()) -> Path:
    """Return a copy of one method's cell of pairs, forged, with a score that fits where that is done."""
    shutil.copytree(honest, folder)
    store = Records(folder)
    record = next(
        r for r in store.all() if r["method"]["name"].startswith(name) and r["task"]["name"] == "pocket-pairs"
    )
    assert record["scores"] is not None
    pairs = forgery(record, *store.pair_scores(record))
    score = 99.99 if pairs is None or forgery is typed else spearman(*(np.float32(side) for side in pairs))
    record["scores"] |= {"main": (score or 0) / 100}  # type: ignore[typeddict-item]
    if forgery in FORGERIES:
        for part in ("all", "mean", "wmean", "subsets"):
            record["scores"].pop(part, None)  # type: ignore[misc]
    store.write(record, pairs)
    return alone(store, [name, *beside])


FORGERIES: list[Forgery] = [all_but_a_known_sample, gold_of_the_predictions, no_pairs, typed]


@pytest.mark.parametrize(("name", "forgery"), [*(("cls", one) for one in FORGERIES), ("simcse", typed)])
def test_a_forgery_differs(
    honest: Path, tmp_path: Path, name: str, forgery: Forgery, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = forged(honest, tmp_path / "forged", name, forgery)
    assert command(folder, "--allow-unverified") == 1
    assert f"differs: {name}" in capsys.readouterr().out


@pytest.mark.parametrize("forgery", [all_but_a_known_sample, no_pairs])
def test_what_cannot_be_checked_is_not_right(
    honest: Path, tmp_path: Path, forgery: Forgery, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = forged(honest, tmp_path / "forged", "simcse", forgery)
    shutil.rmtree(folder / "encoders")
    assert command(folder) == 1
    printed = capsys.readouterr().out
    assert "its trained encoder is not in the folder" in printed


def test_an_untrained_method_is_never_read_from_the_folder(honest: Path, tmp_path: Path) -> None:
    folder = forged(honest, tmp_path / "forged", "cls", all_but_a_known_sample, beside=["simcse"])
    store = Records(folder)
    by_name = {r["method"]["name"].split(":")[0]: r for r in store.all() if r["task"]["name"] == "pocket-pairs"}
    assert by_name["simcse"]["scores"] and by_name["cls"]["scores"]
    by_name["cls"]["scores"] = by_name["simcse"]["scores"]
    store.write(by_name["cls"], store.pair_scores(by_name["simcse"]))
    shutil.copytree(
        store.encoder_folder("simcse:batch_size=8", by_name["simcse"]["encoder_key"]),
        store.encoder_folder("cls", by_name["cls"]["encoder_key"]),
    )
    (verdict,) = (one for one in verify(folder).verdicts if one.word == "differs")
    assert verdict.cell.startswith("cls [") and "encoded again" in verdict.why


@pytest.mark.parametrize("part", ["mean", "wmean", "subsets"])
def test_the_other_scores_of_a_record_are_computed_too(honest: Path, tmp_path: Path, part: str) -> None:
    folder = forged(honest, tmp_path / "forged", "cls", lambda _, predicted, gold: (predicted, gold))
    store = Records(folder)
    (record,) = store.all()
    scores: Any = record["scores"]
    of = next(iter(scores[part].values())) if part == "subsets" else scores[part]
    of["spearman"] += 0.05
    store.write(record, store.pair_scores(record))
    (verdict,) = (one for one in verify(folder).verdicts if one.word == "differs")
    assert verdict.why.startswith(part)


@pytest.mark.parametrize("part", ["cpu", "instructions", "packages"])
def test_bits_are_compared_on_the_kind_of_machine_that_measured(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def moved(record: Record, row: Row, again: Any, *kept: Any) -> tuple[bool, str]:
        return tolerances.compare_cosines(record, row, np.nextafter(np.float32(again), np.float32(2)), *kept)

    def cell() -> tuple[str, str]:
        (verdict,) = (one for one in verify(folder).verdicts if one.word != "missing")
        return verdict.word, verdict.why

    folder = forged(honest, tmp_path / "same", "cls", lambda _, predicted, gold: (predicted, gold))
    assert cell()[1].endswith("are equal bit for bit, as this kind of machine requires")
    elsewhere = {**environment("cpu"), part: {} if part == "packages" else "another"}
    with monkeypatch.context() as patched:
        patched.setattr(tolerances, "environment", lambda device: elsewhere)
        assert cell()[1].endswith(", are equal")
    monkeypatch.setattr(verifying, "compare_cosines", moved)
    word, why = cell()
    assert word == "differs" and "have other bits" in why
    monkeypatch.setattr(tolerances, "environment", lambda device: elsewhere)
    word, why = cell()
    assert word == "verified" and why.endswith("(bits are compared on the kind of machine that measured)")


def test_a_graphics_card_another_program_and_other_threads_of_a_fit_are_within_tolerance(honest: Path) -> None:
    record = next(one for one in Records(honest).all() if one["method"]["name"] == "cls")
    here: Any = record["environment"]
    plain, fitted = resolve_methods(parse_methods("cls,whitening-target", all_recipes()), {})
    assert tolerances.compares_bits(record, plain, here) and tolerances.compares_bits(record, fitted, here)
    threads = {**here, "threads": here["threads"] + 1}
    assert tolerances.compares_bits(record, plain, threads) and not tolerances.compares_bits(record, fitted, threads)
    changes: list[Any] = [{"environment": {**here, "gpu": "a card"}}, {"facts": {"run_by": "onnxruntime"}}]
    changes += [{"facts": {"run_by": "transformers, deberta"}}]
    assert not any(tolerances.compares_bits({**record, **change}, plain, here) for change in changes)


def test_drawn_rows_find_what_a_known_sample_hides(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "DRAWN", 100)
    monkeypatch.setattr(verifying, "SECONDS", 0.0)
    monkeypatch.setattr(verifying, "FEW", 100)
    one_cell = alone(Records(shutil.copytree(honest, tmp_path / "one")), ["cls"])
    words = {one.why.rpartition(", and ")[2] for one in verify(one_cell).verdicts}
    assert words == {
        "the cosines of 100 pairs drawn here, encoded again, are equal bit for bit, as this kind of machine requires"
    }
    drawn: list[list[Any]] = [[], []]
    for times in drawn:
        with monkeypatch.context() as patched:
            patched.setattr(verifying, "compare_cosines", lambda *given, to=times: to.append(given[3].tolist()))
            verify(one_cell)
    assert drawn[0] and all(one != other for one, other in zip(*drawn, strict=True))  # nobody knows them before
    folder = forged(honest, tmp_path / "forged", "cls", all_but_a_known_sample)
    assert [one.word for one in verify(folder).verdicts].count("differs") == 1


def test_left_out_pair_scores_are_allowed_only_where_that_is_asked(honest: Path, tmp_path: Path) -> None:
    folder = alone(Records(shutil.copytree(honest, tmp_path / "less")), ["simcse"])
    shutil.rmtree(folder / "encoders")
    assert (command(folder), command(folder, "--allow-unverified")) == (1, 0)


def test_nothing_is_fetched_unless_that_is_asked(honest: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants as constants

    seen = []
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def encoder(*_: object) -> None:
        seen.append((os.environ.get("HF_HUB_OFFLINE"), constants.HF_HUB_OFFLINE))
        raise MissingError("not here")

    monkeypatch.setattr(verifying, "encoder_of", encoder)
    folder = alone(Records(shutil.copytree(honest, tmp_path / "one")), ["cls"])
    verify(folder)
    assert set(seen) == {("1", True)} and constants.HF_HUB_OFFLINE is False and "HF_HUB_OFFLINE" not in os.environ
    seen.clear()
    verify(folder, fetch=True)
    assert set(seen) == {(None, False)}


def test_a_score_is_that_of_its_pairs_but_for_the_rounding_of_float32() -> None:
    pairs = np.float32([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 2, 4, 3])  # 1 - 6 * 2 / (4 * 15)
    for score in (0.8, 0.80002, 0.79998):
        compare_score(make_record("bag", main=score), *pairs)
    for score in (0.7999, 0.80004, 0.85):
        with pytest.raises(DifferenceError, match="from its pair scores"):
            compare_score(make_record("bag", main=score), *pairs)


@pytest.mark.parametrize(
    ("stated", "again", "right"),
    [
        (392, 396, True),
        (392, 410, False),
        (None, 44, True),
        (None, 60, False),
        (392, None, False),
        (None, None, True),
        (0, None, False),
    ],
)
def test_rounding_decides_how_many_texts_share_a_vector(stated: Any, again: Any, right: bool) -> None:
    """Of 400 texts; few of them, up to a tenth, are not stated."""
    sides: list[Any] = [
        {"texts": 400, "covered": 400, "missing": []} | ({} if count is None else {"shared": count})
        for count in (stated, again)
    ]
    with nullcontext() if right else pytest.raises(DifferenceError, match="coverage shared"):
        compare_shared(*sides, 0.1)


def test_the_workflow_verifies_each_name_and_refuses_links(tmp_path: Path) -> None:
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["verify"]["steps"]
    assert any(f"zoo-bench=={zoo.__version__}" in step.get("run", "") for step in steps)
    script = steps[-1]["run"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "zoo-bench").write_text('#!/bin/sh\ncat\nprintf "%s\\n" "$2" >> "$LOG"\n', encoding="utf-8")
    (tmp_path / "bin" / "zoo-bench").chmod(0o755)
    repository = tmp_path / "repository"
    names = ["plain", "with blank", "größe", "line\nbreak"]
    for name in names:
        (repository / "results" / name / "records").mkdir(parents=True)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "HOME": str(tmp_path),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, cwd=repository, env=environment, capture_output=True, text=True, check=False)

    run("git", "init", "-q")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    run("git", *author, "commit", "-q", "--allow-empty", "-m", "base")
    environment["BASE"] = run("git", "rev-parse", "HEAD").stdout.strip()
    for name in names:
        for number in range(2):
            (repository / "results" / name / "records" / f"{number}.json").write_text("{}", encoding="utf-8")
    run("git", "add", ".")
    assert run("bash", "-e", "-c", script).returncode == 0
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert sorted(log.replace("line\nbreak", "break").split("\n")[:-1]) == [
        "results/break",
        "results/größe",
        "results/plain",
        "results/with blank",
    ]
    (repository / "results" / "plain" / "link").symlink_to("/etc")
    assert run("bash", "-e", "-c", script).returncode == 1


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no finished records"):
        verify(tmp_path)


@pytest.mark.parametrize(
    ("kept", "typed_score", "why"),
    [
        ("others", False, "80.0000 from its items"),
        ("others", True, "items are right here and wrong there"),
        ("shuffled", False, "items are right here and wrong there"),
        ("none", True, "it does not state the scores of its items"),
    ],
)
def test_an_accuracy_is_that_of_its_items(honest: Path, tmp_path: Path, kept: str, typed_score: bool, why: str) -> None:
    """Other bits under the true score, bits of a typed score, other items of the true score, no bits at all."""
    store = Records(shutil.copytree(honest, tmp_path / "forged"))
    folder = alone(store, ["cls"], "pocket-topics")
    record: Any
    (record,) = store.all()
    right = np.arange(sum(record["items"]["parts"])) % 5 != 0
    if kept == "shuffled":
        folds = np.split(right_of(record["items"])[0], np.cumsum(record["items"]["parts"])[:-1])
        right = np.concatenate([np.sort(fold) for fold in folds])
    forged_items = {**record["items"], "right": items_part(right, ())["right"]}
    score = accuracy_of(forged_items)
    record["items"] = None if kept == "none" else forged_items
    record["scores"] |= {"main": score, "accuracy": score} if typed_score else {}
    store.write(record)
    (verdict,) = (one for one in verify(folder).verdicts if one.word == "differs")
    assert verdict.cell.startswith("cls [") and why in verdict.why
