"""`zoo-bench report METHOD`: one page with all that the records say of a method."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from page_fakes import EVIL, SEVEN, data_of, method_records, training
from scipy import stats

from benchmark.analysis.pairs import EASY, HARD, Hard
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import scored_pairs
from benchmark.tasks.loaded import load_tasks

pytestmark = pytest.mark.slow


def words(path: Path) -> str:
    """The page's text without tags, on one line."""
    page = re.sub(r"<(script|style).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A trained method with a gap, and a better one beside it."""
    store = Records(tmp_path)
    learned = training({"250": 50.25, "125": 49.5}, final_loss=0.01234, best_step=250, peak_memory_mb=2000.0)
    learned["dev_curves"] = {"alignment": {"250": 0.28, "125": 0.31}}
    ours = method_records("simcse:epochs=2", 0.4, range(3), training=learned)
    ours.append(failed(make_record("simcse:epochs=2", "pocket-pairs", 0, training=learned), "too <b>little</b> memory"))
    for record in ours:
        record["method"]["recipe"] = {"temperature": 0.05, "epochs": 2, "dropout": None}
        if record["task"]["name"] == "STS12":
            found = {"texts": 100, "digests": [f"{i:08x}" for i in range(7)]}
            record["training"] = {**learned, "overlap": found}
            record["coverage"] = {"texts": 100, "covered": 98, "missing": ["zyzzyva", "qat"]}
    for record in [*ours, *method_records("better", 0.6)]:
        store.write(record)
    return tmp_path


def test_the_page_says_all_of_a_method(results: Path, cli: Cli) -> None:
    """Scores with seeds and rank, recipe and where its values come from, training, coverage, overlap, environment."""
    answer = cli("report", "simcse:epochs=2", "--results", results)
    assert answer.code == 0, answer.err
    (path,) = (results / "reports").iterdir()
    assert str(path) in answer.out
    text = words(path)
    assert "STS12 40.10 ± 0.10 40.00 40.10 40.20" in text
    assert "Avg. 43.10 ± 0.10 43.00 43.10 43.20" in text
    assert "Rank 2 of 2 in sts" in text
    assert "dropout as the only augmentation" in text and "Gao et al. 2021" in text
    assert "temperature 0.05 epochs 2 command line" in text
    assert "test texts that are in it: STS12: 7" in text
    assert "STS12 100 98 zyzzyva, qat" in text
    assert "pocket-pairs: too <b>little</b> memory" in text
    assert "torch 2.10.0" in text
    curves = data_of(path.read_text(encoding="utf-8"))["curves"]
    wanted = {"Dev score": [[125, 49.5], [250, 50.25]], "Alignment": [[125, 0.31], [250, 0.28]]}
    assert [curve["title"] for curve in curves] == [f"{name} during training" for name in wanted]
    for curve, points in zip(curves, wanted.values(), strict=True):
        assert [(line["method"], line["curves"][0]["points"]) for line in curve["rows"]] == [
            (f"seed {seed}", points) for seed in range(3)
        ]


def test_the_page_says_where_a_value_comes_from(tmp_path: Path, cli: Cli) -> None:
    """The command line, the recipe (or one that it extends), or nothing where it is the method's default."""
    store = Records(tmp_path)
    for record in method_records("simcse-sup-small:epochs=2", 0.4):
        used = {"temperature": 0.05, "batch_size": 512, "pooler": "avg", "epochs": 2, "dropout": None}
        store.write({**record, "method": {**record["method"], "recipe": used}})
    assert cli("report", "simcse-sup-small:epochs=2", "--results", tmp_path, "--out", tmp_path / "page.html").code == 0
    wanted = "temperature 0.05 batch_size 512 recipe pooler avg recipe epochs 2 command line"
    assert wanted in words(tmp_path / "page.html")


def test_hard_and_worst_pairs(tmp_path: Path, cli: Cli) -> None:
    """Row numbers always, texts where the data is here and wanted; nothing of data that is not the record's."""
    store = Records(tmp_path)
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    pairs = scored_pairs(task, "test")
    predicted = np.random.default_rng(0).normal(size=len(pairs))
    other = make_record("m", "pocket-words", main=0.5)
    store.write(make_record("m", "pocket-pairs", main=0.5), (predicted, pairs.gold))
    store.write(other, (predicted, pairs.gold))
    place = lambda values: 100 * (stats.rankdata(values) - 0.5) / len(values)  # noqa: E731
    off = place(np.float32(predicted)) - place(pairs.gold)
    out = tmp_path / "page.html"
    for flags in ((), ("--no-texts",)):
        assert cli("report", "m", "--results", tmp_path, "--out", out, *flags).code == 0
        text = words(out)
        for i in np.argsort(-np.abs(off))[:3]:
            assert f"pocket-pairs {i + 1} {pairs.gold[i]:g} {place(pairs.gold)[i]:.1f}" in text
            assert f" {off[i]:.1f} " in text
            assert (" ".join(pairs.first[i].split()) in text) is (not flags)
        assert text.count("pocket-words") >= 4  # in the scores, and three pairs without texts
        assert "pocket-words: texts and hard pairs: the data here has other gold scores" in text
    assert "https://" not in out.read_text(encoding="utf-8")


def test_the_hard_line_is_that_of_the_analysis(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spearman of the hard and of the easy pairs, against scipy; here more pairs are hard."""
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    pairs = scored_pairs(task, "test")
    predicted = pairs.gold + np.random.default_rng(0).normal(size=len(pairs))
    Records(tmp_path).write(make_record("m", "pocket-pairs", main=0.5), (predicted, pairs.gold))
    loose = Hard(positive=3.5, negative=1.5, longer_by=2, closer_than=1)
    monkeypatch.setattr("benchmark.analysis.method_pairs.Hard", lambda: loose)
    out = tmp_path / "page.html"
    assert cli("report", "m", "--results", tmp_path, "--out", out, "--no-texts").code == 0
    masks = loose.masks(pairs)
    for kind in (HARD, EASY):
        mask = masks[kind]
        rho = 100 * stats.spearmanr(np.float32(predicted[mask]), pairs.gold[mask]).statistic
        assert f" {mask.sum()} {rho:.2f} " in words(out)


def test_the_card_says_cost_and_flags(tmp_path: Path, cli: Cli) -> None:
    """Dimensions and parameters where the records have them; training time is the mean of the seeds."""
    learned = training({"8": 50.0}, peak_memory_mb=900.0)
    for record in method_records("m", 0.5, range(2), training=learned):
        record["training"]["seconds"] = 100.0 + 50 * record["seed"]
        record["encoding"] = {"texts_per_second": 812.5}
        record["facts"] = {"dimensions": 256, "parameters": 5_294_080}
        record["method"]["traits"] |= {"needs_pairs": True, "transductive": True}
        Records(tmp_path).write(record)
    out = tmp_path / "page.html"
    assert cli("report", "m", "--results", tmp_path, "--out", out).code == 0
    for said in (
        "Transductive yes: fitted on the test texts",
        "Dimensions 256",
        "Parameters 5,294,080",
        "Training 125 s per seed; a time not in the records per task, on its texts",
        "Device a cpu, 2 threads",
    ):
        assert said in words(out)


def test_a_recipe_stands_for_its_variants_wrong_names_get_help(results: Path, cli: Cli) -> None:
    """`simcse` was measured with an override only; `bettter` was not measured at all."""
    out = results / "page.html"
    assert cli("report", "simcse", "--results", results, "--out", out).code == 0
    assert "simcse:epochs=2" in words(out)
    answer = cli("report", "bettter", "--results", results)
    assert answer.code == 1
    assert "Did you mean 'better'?" in answer.err


def test_a_name_that_is_html_stays_text(tmp_path: Path, cli: Cli) -> None:
    """Escaped wherever it stands."""
    for record in method_records(EVIL, 0.5):
        Records(tmp_path).write(record)
    out = tmp_path / "page.html"
    assert cli("report", EVIL, "--results", tmp_path, "--out", out).code == 0
    page = out.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page
    assert EVIL in words(out)


def test_report_imports_no_torch(results: Path) -> None:
    """The command starts light, pair scores and their texts included."""
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    gold = scored_pairs(task, "test").gold
    Records(results).write(make_record("better", "pocket-pairs"), (gold[::-1].copy(), gold))
    script = (
        "import sys\n"
        "from benchmark.cli.main import main\n"
        "try: main(['report', 'better', '--results', sys.argv[1]])\n"
        "except SystemExit as leaving: code = leaving.code\n"
        "print(code, sorted({'torch', 'transformers', 'sklearn', 'scipy'} & set(sys.modules)))\n"
    )
    child = subprocess.run([sys.executable, "-c", script, str(results)], capture_output=True, text=True)
    assert child.stdout.splitlines()[-1] == "0 []", child.stderr


def test_every_measured_task_stands_on_the_page(results: Path, cli: Cli) -> None:
    """The seven tasks of the suite and the task of another."""
    out = results / "page.html"
    assert cli("report", "simcse", "--results", results, "--out", out).code == 0
    assert all(task in words(out) for task in (*SEVEN, "pocket-pairs"))
