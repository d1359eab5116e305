"""LaTeX for a paper: it compiles, fits the article, names rows as papers do, and keeps conditions and marks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from scipy import stats

from benchmark.records.folder import Records
from benchmark.report.latex import latex
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite

TASKS = suite("sts").tasks
NAMES = ("simcse-crop:temperature=0.1", "ptbert-repo", "promptbert-sup-roberta-transfer", "bag-of-words", "cls", "flow")


def text_of(records: list[Any], name: str = "sts") -> str:
    (table,) = build_tables(records, [suite(name)])
    return latex(table)


def complete(name: str, level: float, seeds: Any = (None,), tasks: Any = TASKS, **changes: Any) -> list[Any]:
    return [make_record(name, task, seed, main=level, **changes) for task in tasks for seed in seeds]


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row by its name, without its marks."""
    lines = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if " & " in line]
    return {re.sub(r"\$\^\{.+\}\$$", "", name): cells for name, *cells in lines[1:]}


def test_bold_is_the_best_and_underlined_the_second_of_a_part() -> None:
    """As printed; a row alone in its part has neither, nor has a trial."""
    records = complete("a", 0.6) + complete("b", 0.600001) + complete("c", 0.5) + complete("d", 0.4)
    records += complete("bag-of-words", 0.7)
    rows = rows_of(text_of(records))
    assert {cell for name in "ab" for cell in rows[name]} == {r"\textbf{60.00}"}
    assert (set(rows["c"]), set(rows["d"])) == ({r"\underline{50.00}"}, {"40.00"})
    assert set(rows["Bag of words"]) == {"70.00"}
    trial = text_of(complete("a", 0.6, limit=9) + complete("b", 0.5, limit=9))
    assert r"\textbf{60" not in trial and "TRIAL" in trial


def test_rows_are_named_as_in_papers() -> None:
    text = text_of([one for name in NAMES for one in complete(name, 0.5)])
    wanted = {"CLS token", "BERT-flow", "PT-BERT (code)", "PromptBERT (sup., roberta, transfer)", "Bag of words"}
    assert set(rows_of(text)) == {*wanted, "SimCSE (crop, temperature 0.1)"}


def test_conditions_are_parts_and_letters() -> None:
    """Nothing of the conditions in Markdown is dropped; the most frequent have no letter."""
    pairs = {"corpus": {"name": "nli", "pairs": 4321}}
    records = complete("plain", 0.3) + complete("other", 0.4) + complete("sup", 0.5, training=pairs)
    for record in records:
        record["method"]["traits"] |= {"needs_pairs": record["method"]["name"] == "sup"}
    text = text_of(records)
    assert re.findall(r"\\textit\{(\w+)\}", text) == ["untrained", "supervised"]
    assert "sup$^{a}$ &" in text and "\nplain &" in text
    assert r"Rows without a letter: tiny, fp32; $^{a}$ tiny, fp32, supervised: 4,321 labelled pairs of nli." in text


def test_what_is_missing_is_a_dash() -> None:
    records = complete("m", 0.5)
    records[2] = failed(records[2], "no data", "n/a")
    row = rows_of(text_of(records))["m"]
    assert (row[2], row[-2], row[-1]) == ("--", "--", "--")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Three seeds with pair scores of a baseline, a row far above it, far below it, and about as good."""
    store, gold = Records(tmp_path / "results"), np.round(np.random.default_rng(0).uniform(0, 5, 300), 1)
    for place, (name, noise) in enumerate({"simcse": 2.0, "ptbert": 0.5, "cls": 9.0, "flow": 2.0}.items()):
        for seed in range(3):
            predicted = gold + noise * np.random.default_rng([place, seed]).normal(size=len(gold))
            main = float(stats.spearmanr(predicted, gold).statistic)
            store.write(make_record(name, "MEN", seed, main=main), (predicted, gold))
    return tmp_path / "results"


def test_rows_are_chosen_and_marked_against_a_baseline(measured: Path, cli: Cli) -> None:
    """In every output, with what the marks mean; Holm's procedure counts the rows that are there."""
    words = ("leaderboard", "--results", measured, "--methods", "ptbert,c*,flow", "--baseline", "simcse")
    answer = cli(*words)
    assert answer.code == 0, answer.err
    text = (measured / "words.tex").read_text(encoding="utf-8")
    signs = re.findall(r"^(\S.*?)\$\^\{.*\\(dagger|ddagger)\}\$ &", text, re.MULTILINE)
    assert signs == [("PT-BERT", "dagger"), ("CLS token", "ddagger")]
    assert set(rows_of(text)) == {"PT-BERT", "CLS token", "BERT-flow", "SimCSE"}
    assert r"$^{\dagger}$: above SimCSE, $^{\ddagger}$: below it (p $<$ 0.05" in text and "over 3 rows" in text
    for shown in (answer.out, (measured / "words.md").read_text(encoding="utf-8")):
        assert "↑: above simcse, ↓: below it" in " ".join(shown.split()) and " ↑" in shown and " ↓" in shown
    assert cli("leaderboard", "--results", measured, "--methods", "ptbert").code == 0
    assert list(rows_of((measured / "words.tex").read_text(encoding="utf-8"))) == ["PT-BERT"]


def test_the_caption_is_short_and_says_what_was_learned(measured: Path, cli: Cli) -> None:
    """At most four lines of its width, with the names of papers; what does not fit is below; every output has it."""
    assert cli("leaderboard", "--results", measured).code == 0
    text = (measured / "words.tex").read_text(encoding="utf-8")
    (caption,) = re.findall(r"^\\caption\{(.*)\}$", text, re.MULTILINE)
    (notes,) = re.findall(r"^\\parbox\{\\linewidth\}\{\\footnotesize (.*)\}$", text, re.MULTILINE)
    assert caption.endswith("On MEN, PT-BERT has 94.74, above all others compared with it.")
    width = 219 if r"\begin{table}" in text else 455
    assert 5.2 * len(caption) < 4 * width and "All rows: tiny, fp32." in notes
    for name in ("words.md", "words.json", "index.html"):
        assert "On MEN, ptbert has 94.74" in (measured / name).read_text(encoding="utf-8"), name


def test_an_unknown_row_is_one_sentence(measured: Path, cli: Cli) -> None:
    for option in ("--methods", "--baseline"):
        answer = cli("leaderboard", "--results", measured, option, "simsce")
        assert answer.code == 2
        assert "'simsce'" in answer.err and "Did you mean 'simcse'" in answer.err


@pytest.mark.parametrize("name", ["sts", "transfer", "pocket"])
def test_a_two_column_article_takes_it(name: str, tmp_path: Path) -> None:
    """It compiles without a warning about width, with names that need escapes, in one column or in both."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no TeX here (on Debian: apt-get install texlive-latex-base texlive-latex-extra)")
    tasks = suite(name).tasks
    records = [one for row in NAMES for one in complete(row, 0.5, range(3), tasks)]
    records += complete('a_b&c%d#e$f{g}h~i^j\\k<x>|"y"…±⚠', 0.4, tasks=tasks)
    for i, record in enumerate(records):
        record["scores"]["main"] += 0.01 * (i % 7)
    (tmp_path / "table.tex").write_text(text_of(records, name), encoding="utf-8")
    article = r"\documentclass[twocolumn,11pt,a4paper]{article}\usepackage[margin=2.5cm,columnsep=0.6cm]{geometry}"
    article += r"\usepackage{booktabs}\begin{document}\input{table}See table~\ref{tab:NAME}.\end{document}"
    (tmp_path / "paper.tex").write_text(article.replace("NAME", name), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):
        process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert process.returncode == 0, process.stdout[-2000:]
    assert "Overfull" not in process.stdout and "undefined" not in process.stdout
