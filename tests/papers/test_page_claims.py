"""The claims on the page: shown where they were written, filtered, on a phone and on paper."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from fakes import Cli
from page_chromium import Browser
from page_fakes import data_of, method_records

from benchmark.records.folder import Records
from benchmark.report.leaderboard import make_leaderboard
from benchmark.report.page import page
from benchmark.report.table import build_tables, read_completed
from benchmark.tasks.suites import suite
from zoo_bench_papers.answers import CONFIRMED, REVERSED, SMALLER, UNDECIDED
from zoo_bench_papers.ledger import ledger
from zoo_bench_papers.verdicts import Verdict, verdicts

FOLDER = Path(__file__).parents[2] / "leaderboards" / "zoo-small"


@functools.cache  # seconds
def published() -> list[Verdict]:
    store = Records(FOLDER)
    return verdicts(FOLDER, store, read_completed(store))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("claims") / "index.html"
    tables = build_tables(method_records("alpha", 0.4), [suite("sts")])
    path.write_text(page(tables, claims=ledger(published())), encoding="utf-8")
    return path


def test_the_page_has_claims_where_they_were_asked_for(cli: Cli, tmp_path: Path) -> None:
    """The page shows what `zoo-bench claims` has written into the folder; another folder's page has none."""
    for record in method_records("cls", 0.4):
        Records(tmp_path).write(record)
    assert "claims" not in data_of(make_leaderboard(tmp_path).files["index.html"])
    assert cli("claims", "--results", tmp_path).code == 0
    written = ledger(verdicts(tmp_path, store := Records(tmp_path), read_completed(store)))
    assert data_of(make_leaderboard(tmp_path).files["index.html"])["claims"] == json.loads(json.dumps(written))


@pytest.mark.slow
def test_claims_are_filtered_by_verdict_and_paper(browser: Browser, shown: Path) -> None:
    """The count says what is left, the address keeps it, and a link opens it again."""
    browser.open(shown)
    browser.driver.find_element("id", "tab-claims").click()
    (part,) = ledger(published())
    claims = part["claims"]
    assert isinstance(claims, list)
    every = len(claims)
    assert browser.element(".count").text == f"{every} of {every} verdicts"
    assert browser.element("p.learned").text == part["counts"], "the counts stand above"
    decided = [one for one in published() if one.word in (CONFIRMED, SMALLER, REVERSED)]
    assert len([item for item in browser.all("li.claim") if item.is_displayed()]) == len(decided)
    folded = [summary.text for summary in browser.all("details > summary") if summary.text != "Numbers"]
    assert f"? {UNDECIDED} ({sum(one.word == UNDECIDED for one in published())})" in [text.strip() for text in folded]
    choose = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change', { bubbles: true }))"
    verdict, paper = browser.all("select")
    browser.run(choose, verdict, UNDECIDED)
    browser.run(choose, paper, "PT-BERT")
    wanted = [one for one in published() if (one.word, one.claim.paper) == (UNDECIDED, "PT-BERT")]
    wanted.sort(key=lambda verdict: not verdict.deciding)
    texts = [item.text for item in browser.all("li.claim")]
    assert len(texts) == len(wanted) > 0
    for drawn_verdict, text in zip(wanted, texts, strict=True):
        assert drawn_verdict.claim.says in text and f"{UNDECIDED} {drawn_verdict.scale}" in text
        assert drawn_verdict.share is None or "as long as the paper" in text
    assert len(browser.all("svg.forest line.ours")) == 2 * sum(len(one.deciding) for one in wanted)
    labels = {label.text for label in browser.all("svg.forest text")}
    assert labels == {"\u221210", "\u22125", "0", "+5", "+10"}
    address = browser.run("return location.hash")
    browser.driver.get("about:blank")
    browser.driver.get(shown.as_uri() + address)
    assert [item.text for item in browser.all("li.claim")] == texts
    assert browser.problems() == []


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1024), ("dark", 390)])
def test_axe_finds_nothing_on_the_claims(browser: Browser, shown: Path, scheme: str, width: int) -> None:
    """Nor does anything scroll sideways."""
    browser.open(shown, width, "suite=claims", prefers_color_scheme=scheme)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run("document.querySelectorAll('details').forEach((one, i) => { one.open = i % 9 === 0; })")
    assert browser.findings() == []
