"""The claims on the page: what the ledger says, filtered, on a phone and on paper."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from page_chromium import Browser
from page_fakes import data_of, method_records

from benchmark.leaderboard.claims import all_claims
from benchmark.leaderboard.files import leaderboard_files
from benchmark.leaderboard.page import page
from benchmark.leaderboard.table import build_tables
from benchmark.leaderboard.verdicts import HOLDS, NOT_MEASURED, OPPOSITE, ledger, verdicts
from benchmark.records.folder import Records
from benchmark.tasks.suites import suite

FOLDER = Path(__file__).parents[3] / "leaderboards" / "zoo-small"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the claims of a published folder."""
    path = tmp_path_factory.mktemp("claims") / "index.html"
    tables = build_tables(method_records("alpha", 0.4), [suite("sts")])
    path.write_text(page(tables, claims=ledger(FOLDER)), encoding="utf-8")
    return path


def test_the_ledger_holds_every_claim_once(tmp_path: Path) -> None:
    """Each with its verdict; what is measured with both sides and p, what is not with the reason."""
    (part,) = ledger(FOLDER)
    claims = part["claims"]
    assert isinstance(claims, list)
    assert Counter(one["id"] for one in claims) == Counter(one.id for one in all_claims())
    found = {one.claim.id: one for one in verdicts(FOLDER)}
    for one in claims:
        claim = found[one["id"]]
        if claim.measured:
            assert (one["verdict"], one["ours"]) == (claim.verdict, claim.ours())
            assert one["theirs"].startswith(claim.claim.published[0].text() if claim.claim.published else "no number")
        else:
            assert (one["verdict"], one["reason"]) == (NOT_MEASURED, claim.reason)


def test_the_page_has_claims_where_they_were_asked_for(tmp_path: Path) -> None:
    """A folder in which `zoo-bench claims` has written its table; another folder's page has none."""
    for record in method_records("cls", 0.4):
        Records(tmp_path).write(record)
    for there in (False, True):
        (tmp_path / "claims.md").write_text("") if there else None
        data = data_of(leaderboard_files(tmp_path)[1]["index.html"])
        assert bool(data.get("claims")) is there


@pytest.mark.slow
def test_claims_are_filtered_by_verdict_and_paper(browser: Browser, shown: Path) -> None:
    """The count says what is left, the address keeps it, and a link opens it again."""
    browser.open(shown)
    browser.driver.find_element("id", "tab-claims").click()
    every = len(all_claims())
    assert browser.one(".count").text == f"{every} of {every} claims"
    choose = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change', { bubbles: true }))"
    verdict, paper = browser.all("select")
    browser.run(choose, verdict, OPPOSITE)
    browser.run(choose, paper, "PromptBERT")
    wanted = [one for one in verdicts(FOLDER) if (one.verdict, one.claim.paper) == (OPPOSITE, "PromptBERT")]
    texts = [item.text for item in browser.all("li.claim")]
    assert len(texts) == len(wanted) > 0
    for one, text in zip(wanted, texts, strict=True):
        assert one.claim.says in text and one.ours() in text and "the opposite" in text
    address = browser.run("return location.hash")
    browser.driver.get("about:blank")
    browser.driver.get(shown.as_uri() + address)
    assert [item.text for item in browser.all("li.claim")] == texts
    assert browser.problems() == []


@pytest.mark.slow
def test_claims_on_a_phone_and_on_paper(browser: Browser, shown: Path) -> None:
    """390 pixels: nothing scrolls sideways, one part below the other. Paper has the claims and not the filters."""
    browser.open(shown, 390)
    browser.driver.get("about:blank")
    browser.driver.get(f"{shown.as_uri()}#suite=claims&verdict={HOLDS}")
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    parts = [part.rect for part in browser.all("li.claim dl > div")]
    assert len(parts) >= 3 and len({part["x"] for part in parts}) == 1
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.one("li.claim").is_displayed() and not browser.one(".controls").is_displayed()
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.problems() == []


@pytest.mark.slow
def test_claims_have_names_and_roles(browser: Browser, shown: Path) -> None:
    """A list of claims, each a definition list; every choice has a label; the count is announced."""
    browser.open(shown)
    browser.driver.find_element("id", "tab-claims").click()
    assert [one.accessible_name for one in browser.all("select")] == ["Verdict", "Paper"]
    assert browser.one(".count").get_attribute("role") == "status"
    assert browser.run("return [...document.querySelectorAll('ol.claims > *')].every((one) => one.tagName === 'LI')")
    pairs = "return [...document.querySelectorAll('.claim dl > div')].every((one) => one.children.length === 2)"
    assert browser.run(pairs)
