"""What of a row is in sight: its condition and backbone beside its scores, on wide and narrow screens and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from page_chromium import Browser
from page_fakes import SEVEN, method_records, training

from benchmark.report.page import page
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite

pytestmark = pytest.mark.slow

pytest.importorskip("selenium.webdriver", reason="pip install selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

ANCESTRY = "labelled ancestry (a-model)"
LONG = "promptbert-sup-repo:template_length=256:epochs=4"
CONDITIONS = {  # name of a row: what its records say of it, and the condition that the page shows
    "random": ({}, "control"),
    "cls": ({"traits": {"transductive": False, "untrained": True}}, "untrained backbone"),
    "static-avg": ({}, "untrained"),
    "simcse": ({"traits": {"needs_corpus": True, "transductive": False}}, "unsupervised"),
    LONG: ({"traits": {"needs_corpus": False, "needs_pairs": True, "transductive": False}}, "supervised"),
    "whitening-target": ({"traits": {"needs_corpus": False, "transductive": True}}, "transductive"),
    "all-MiniLM": ({"traits": {"transductive": False, "released": True}}, "released"),
}
LEARNED = ("unsupervised", "supervised", "transductive")
SHAPES = """
return Object.fromEntries([...document.querySelectorAll(arguments[0])].map((one) => {
  const { borderRadius, clipPath, transform, borderTopWidth } = getComputedStyle(one, "::before");
  return [one.textContent, [borderRadius, clipPath, transform, borderTopWidth].join(" ")];
}));"""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A row of each condition, three seeds each, on a backbone with labelled ancestry; one weight count is unknown."""
    records: list[Any] = []
    for i, (name, (changes, condition)) in enumerate(CONDITIONS.items()):
        about = training({"250": 50.25, "500": 51.0}, overlap={"texts": 9, "digests": ["aa"] * (name == LONG)})
        of_method = method_records(name, 0.4 + i / 50, range(3), training=about if condition in LEARNED else None)
        for record in of_method:
            record["method"] |= changes
            record["method"]["sources"] = {"backbone": {"name": "zoo-small", "sha256": "0" * 64, "ancestry": ANCESTRY}}
            record["encoding"] = {"texts_per_second": 1000.0 + i}
            record["facts"] = {"dimensions": 8, "parameters": None if i == 1 else 0 if i == 0 else 10**i}
        records += of_method
    (tmp_path / "page.html").write_text(page(build_tables(records, [suite("sts")])), encoding="utf-8")
    return tmp_path / "page.html"


def test_conditions_stand_before_the_scores(browser: Browser, mixed: Path) -> None:
    browser.open(mixed)
    heads = [button.text for button in browser.all("thead button")]
    first = ["#", "Method", "Condition", "Backbone", "Avg.", *SEVEN]
    assert heads[: len(first)] == first
    assert heads.index("Min.") == heads.index("Max.") - 1 > heads.index("SICK-R")
    assert browser.problems() == []


def test_a_condition_is_a_word_and_a_shape(browser: Browser, mixed: Path) -> None:
    """Of each kind of row; the shapes differ in more than colour, in the table and in the plots."""
    browser.open(mixed)
    names = [name.text for name in browser.all("tbody th .whole")]
    shown = dict(zip(names, browser.column("Condition"), strict=True))
    assert shown == {name: condition for name, (_, condition) in CONDITIONS.items()}
    shapes = browser.run(SHAPES, "td .condition")
    assert shapes.pop("untrained backbone") == shapes["untrained"]
    assert len(shapes) == len(set(shapes.values())) == 6
    marks = r"""
    const shape = (mark) => mark.tagName + mark.getAttribute("class") + mark.getAttribute("d")?.replace(/^M[^hl]*/, "");
    const points = document.querySelectorAll(".costs figure:first-child .point");
    return [...points].map(({ row, lastChild }) => [row.method, shape(lastChild)]);"""
    drawn = dict(browser.run(marks))
    assert drawn.pop("cls") == drawn["static-avg"]
    assert len(drawn) == len(set(drawn.values())) == 6
    next(box for box in browser.all("fieldset input") if box.get_attribute("value") == "control").click()
    assert "random" not in browser.column("Method") and "static-avg" in browser.column("Method")


def test_condition_and_backbone_are_in_sight_on_a_laptop(browser: Browser, mixed: Path) -> None:
    """1,440 pixels: they and all seven tasks, beside a long name and the backbone's ancestry; nothing is cut."""
    browser.open(mixed, 1440)
    assert set(browser.column("Backbone")) == {"zoo-small"}
    assert browser.element("").text.count(ANCESTRY) == 1, "once, above the table"
    right = "return arguments[0].getBoundingClientRect().right"
    box = browser.element(".box")
    limit = browser.run("return arguments[0].getBoundingClientRect().left + arguments[0].clientWidth", box)
    for head in ("Condition", "Backbone", "SICK-R"):
        assert browser.run(right, browser.head(head)) <= limit
    script = "return [...document.querySelectorAll('td.given')].every((one) => one.scrollWidth <= one.clientWidth)"
    assert browser.run(script)


def test_a_phone_shows_them_below_the_name(browser: Browser, mixed: Path) -> None:
    """390 pixels: the average is in sight too, in the upper half; the arrow keys step over what is not shown."""
    browser.open(mixed, 390)
    briefs = [one.text.split("\n") for one in browser.all("tbody .brief")]
    assert ["unsupervised"] in briefs
    right = "const box = arguments[0].getBoundingClientRect(); return [box.right, box.bottom]"
    place = browser.run(right, browser.element("tbody td.average"))
    assert place[0] <= 390 and place[1] <= 450
    # No text over numbers: nothing of a name lies beyond its cell.
    script = """
    const right = (one) => one.getBoundingClientRect().right;
    const names = [...document.querySelectorAll("section:not([hidden]) th.name")];
    return names.filter((cell) => [...cell.querySelectorAll("*")].some((part) => right(part) > right(cell) + 1))
      .map((cell) => cell.textContent);"""
    assert browser.run(script) == []
    assert browser.element(".scrolls.more") and not browser.element(".controls").is_displayed()
    browser.run("arguments[0].focus()", browser.element("tbody th"))
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert "Average" in browser.tip().splitlines()[0]


@pytest.mark.parametrize("width", [360, 420, 1400])
def test_headings_and_what_people_score_stay_whole_over_the_rows(width: int, browser: Browser, mixed: Path) -> None:
    """Scrolled half down, the cells of the first line and those of the last line are level: no row shows between."""
    browser.open(mixed, width)
    script = """
    const [box, part] = arguments; box.style.maxHeight = "220px"; box.scrollTop = 60;
    const shown = [...box.querySelectorAll(`${part} tr > *`)].filter((cell) => cell.offsetWidth);
    return [shown.length, [...new Set(shown.map((cell) => Math.round(cell.getBoundingClientRect().top)))].length];"""
    for part in ("thead", "tfoot"):
        cells, heights = browser.run(script, browser.element(".box"), part)
        assert cells > 3 and heights == 1, part


def test_scores_are_drawn_against_the_number_of_weights(browser: Browser, mixed: Path) -> None:
    """Beside training time and speed; no weights stand before the axis, rows whose number is unknown are counted."""
    browser.open(mixed)
    figures = browser.all(".costs figure")
    assert [figure.find_element("css selector", "h4").text for figure in figures] == [
        "Training time",
        "Encoding speed",
        "Number of weights",
    ]
    weights = figures[2]
    script = "return [...arguments[0].querySelectorAll('.point')].map((one) => one.row.method)"
    assert set(browser.run(script, weights)) == {name for name in CONDITIONS if name != "cls"}
    ticks = [tick.text for tick in weights.find_elements("css selector", ".tick")]
    assert "none" in ticks and "number of weights" in ticks
    assert "1 row without a known number of weights is left out." in weights.text
