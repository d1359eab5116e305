"""The plots of the page in a real browser: zoom, axes that fit, what is counted at the edge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_chromium import Browser
from page_fakes import method_records

from benchmark.report.page import page
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite

pytestmark = pytest.mark.slow

pytest.importorskip("selenium.webdriver", reason="pip install selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


def points(browser: Browser) -> list[str]:
    return list(
        browser.run("return [...document.querySelectorAll('figure:first-child .point')].map((one) => one.row.method)")
    )


def test_a_plot_zooms_by_keyboard_and_buttons(browser: Browser, wide: Path) -> None:
    """+ shows fewer points, the focus stays with its own; 0, the button and the address go back and forth."""
    browser.open(wide)
    every = points(browser)
    assert len(every) == 54
    point = browser.all("figure:first-child .point")[30]
    browser.run("arguments[0].setAttribute('tabindex', 0); arguments[0].focus()", point)
    ActionChains(browser.driver).send_keys("+").send_keys("+").perform()
    some = points(browser)
    assert 0 < len(some) < len(every)
    assert browser.run("return document.activeElement.closest('svg') !== null")
    address = browser.run("return location.hash")
    assert "zoom-training=" in address
    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    assert points(browser) != some
    ActionChains(browser.driver).send_keys("0").perform()
    assert points(browser) == every and "zoom" not in browser.run("return location.hash")
    browser.driver.get("about:blank")
    browser.driver.get(wide.as_uri() + address)
    assert points(browser) == some
    next(one for one in browser.all("figure:first-child .zoom button") if one.text == "Reset").click()
    assert points(browser) == every
    assert browser.problems() == []


def test_axes_fit_the_rows_and_what_is_far_below_is_counted(browser: Browser, tmp_path: Path) -> None:
    """One row near 0 does not press forty near 50 into a line; zooming out shows it. Names stay within the axes."""
    records = [record for i in range(40) for record in method_records(f"row-{i}", 0.44 + i / 500)]
    records += method_records("nothing", 0.0)
    for record in records:
        record["encoding"] = (
            {"texts_per_second": 1000.0 + 37 * int(record["method"]["name"].rpartition("-")[2] or 0)}
            if ("row" in record["method"]["name"])
            else {"texts_per_second": 500.0}
        )
    (tmp_path / "page.html").write_text(page(build_tables(records, [suite("sts")])), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert len(points(browser)) == 40 and "nothing" not in points(browser)
    assert "1 row is far below" in browser.element("figure:first-child").text
    script = """
    const [svg, inner, ...labels] = ["svg", "clipPath rect", ".label"].flatMap(
      (what) => [...document.querySelectorAll(`.costs figure:first-child ${what}`)]).map((one) => {
      const { x, y, width, height } = one.matches("svg") ? { x: 0, y: 0, width: 0, height: 0 } : one.getBBox();
      return { left: x, right: x + width, top: y, bottom: y + height };
    });
    const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
    return [labels.length, labels.every((one) => one.left >= inner.left - 1 && one.right <= inner.right + 1),
      labels.every((a, i) => labels.slice(i + 1).every((b) => apart(a, b)))];"""
    count, within, apart = browser.run(script)
    assert count >= 3 and within and apart
    out = next(one for one in browser.all("figure:first-child .zoom button") if one.text == "−")
    while out.is_enabled():
        out.click()
    assert "nothing" in points(browser)
    assert browser.problems() == []


def test_the_dashed_line_is_the_best_average_at_each_cost(browser: Browser, wide: Path) -> None:
    """It has steps, and no row is above it: what lies between two rows is no encoder."""
    browser.open(wide)
    script = """
    return [...document.querySelectorAll(".costs figure svg")].map((svg) => {
      const centre = ({ x, y, width, height }) => [x + width / 2, y + height / 2];
      const marks = [...svg.querySelectorAll(".point .mark")].map((mark) => centre(mark.getBBox()));
      return [svg.querySelector(".front").getAttribute("d"), marks];
    });"""
    figures = browser.run(script)
    assert len(figures) >= 2
    for path, drawn in figures:
        assert re.fullmatch(r"M[-\d.]+ [-\d.]+(H[-\d.]+V[-\d.]+)*H[-\d.]+", path), path
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]
        corners = list(zip(numbers[:-1:2], numbers[1::2], strict=True))
        # Rows of one architecture have one cost: the best may stand at the cost of another one.
        assert all(min(abs(x - a) for a, _ in drawn) < 2 and min(abs(y - b) for _, b in drawn) < 2 for x, y in corners)
        # On a screen a smaller y is a better average.
        cheaper = numbers[-1] > numbers[0]
        for x, y in drawn:
            reached = [b for a, b in corners if (a <= x + 1 if cheaper else a >= x - 1)]
            assert min(reached) <= y + 1.5
