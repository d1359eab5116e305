"""The page in a real browser: headless Chromium, driven as a reader would with mouse and keyboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from page_chromium import Browser
from page_fakes import EVIL, method_records

from benchmark.report.page import page
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite

pytestmark = pytest.mark.slow

pytest.importorskip("selenium.webdriver", reason="pip install selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


def numbers(texts: list[str]) -> list[float]:
    """The numbers of a column, and that what is missing comes last."""
    known = [text for text in texts if text != "n/a"]
    assert texts == known + ["n/a"] * (len(texts) - len(known))
    return [float(text) for text in known]


def test_a_wide_page_is_usable(browser: Browser, wide: Path) -> None:
    """60 x 40: no console error, the table scrolls in its own box and its names stay in sight."""
    browser.open(wide)
    assert len(browser.all("tbody tr")) == 60
    assert len(browser.all("tbody tr:first-child td")) >= 43
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    box, name = browser.element(".box"), browser.element("tbody th")
    before = name.rect["x"]
    browser.run("arguments[0].scrollLeft = 1500; arguments[0].scrollTop = 300", box)
    assert browser.run("return arguments[0].scrollLeft", box) == 1500
    assert name.rect["x"] == before
    top = browser.run("return arguments[0].getBoundingClientRect().top", browser.element("thead th.name"))
    assert top == pytest.approx(browser.run("return arguments[0].getBoundingClientRect().top", box), abs=3)
    assert browser.problems() == []


def test_sorting_by_click(browser: Browser, wide: Path) -> None:
    """Scores go down first, then up; what is missing is last both ways; aria-sort says so, on one column only."""
    browser.open(wide)
    assert numbers(browser.column("#")[:54]) == list(range(1, 55))
    for label in ("task-0", "Avg."):
        for order in ("descending", "ascending"):
            browser.head(label).click()
            values = numbers(browser.column(label))
            assert len(values) == 54
            assert values == sorted(values, reverse=order == "descending")
            (head,) = browser.all("thead th[aria-sort]")
            assert (head.text, head.get_attribute("aria-sort")) == (label, order)
    browser.head("Method").click()
    assert browser.column("Method") == sorted(browser.column("Method"), key=lambda name: int(name.split("-")[1]))
    assert browser.problems() == []


def test_filters(browser: Browser, wide: Path) -> None:
    """Text, backbone, setting and completeness together; the count says what is left; bold is the best of it."""
    browser.open(wide)
    browser.element("input[type=search]").send_keys("METHOD-1, method-25")
    expected = {"method-1", "method-25", *(f"method-1{i}" for i in range(10))}
    assert set(browser.column("Method")) == expected
    assert browser.element(".count").text == "12 of 60 rows"
    next(o for o in browser.all("select option") if o.text == "bert-base-uncased").click()
    assert set(browser.column("Method")) == {f"method-{i}" for i in (1, 11, 13, 15, 17, 19, 25)}
    browser.element("input[value=unsupervised]").click()
    assert set(browser.column("Method")) == {f"method-{i}" for i in (11, 15, 19)}
    next(label for label in browser.all(".controls label") if label.text == "hide incomplete").click()
    assert set(browser.column("Method")) == {"method-11", "method-15"}
    assert browser.element(".count").text == "2 of 60 rows"
    best = max(map(float, browser.column("task-7")))
    shown = [cell for cell in browser.all("tbody tr:not([hidden]) td.best") if cell.text.startswith(f"{best:.2f}")]
    assert len(browser.all("tbody tr:not([hidden]) td.best")) == 41
    assert shown
    browser.element("input[type=search]").clear()
    browser.element("input[type=search]").send_keys("no such method")
    assert browser.column("Method") == [] and "No row is left by this filter." in browser.element("").text
    assert browser.problems() == []


def test_cells_tell_more_on_hover_and_on_focus(browser: Browser, small: Path) -> None:
    """Mean, spread, every seed's score; the reason of a gap; Escape closes; arrow keys move over the cells."""
    browser.open(small)
    row = next(line for line in browser.all("tbody tr") if "alpha" in line.text)
    cell = row.find_elements(By.CSS_SELECTOR, "td")[5]  # place, rank, mean, least and largest come before it
    ActionChains(browser.driver).move_to_element(cell).perform()
    text = browser.tip()
    assert "alpha · STS12" in text
    assert "40.10 ± 0.10 (mean and standard deviation of 3 seeds)" in text
    assert "seed 0: 40.00 · seed 1: 40.10 · seed 2: 40.20" in text
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    assert browser.tip() == ""
    browser.run("arguments[0].focus()", browser.head("Device"))
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_DOWN).perform()
    assert "gamma" in browser.tip()
    assert "n/a: STS12: no data for STS12 here" in browser.tip()
    ActionChains(browser.driver).send_keys(*[Keys.ARROW_RIGHT] * 4).perform()
    assert browser.tip().splitlines() == ["gamma · STS12", "n/a: no data for STS12 here"]
    assert browser.run("return document.activeElement.getAttribute('aria-describedby')") == "tip"
    browser.run("document.querySelector('.box').style.width = '30rem'")  # the next cells are out of sight
    ActionChains(browser.driver).send_keys(*[Keys.ARROW_RIGHT] * 5).pause(0.3).perform()
    assert browser.run("return document.querySelector('.box').scrollLeft") > 0
    assert browser.tip().splitlines()[0] == "gamma · STS-B"


def test_a_name_that_is_html_is_only_text(browser: Browser, small: Path) -> None:
    """It stands in the table as it is and runs nowhere: table, plots, tooltips."""
    browser.open(small)
    assert browser.column("Method")[0] == EVIL
    browser.run("arguments[0].focus()", browser.element("tbody th"))
    assert EVIL in browser.tip()
    assert browser.run("return [typeof window.hacked, document.querySelectorAll('img').length]") == ["undefined", 0]
    assert EVIL in browser.element(".legend + .scroll").find_element(By.XPATH, "..").text
    assert browser.problems() == []


def test_rows_not_told_apart_from_the_best_are_marked(browser: Browser, small: Path) -> None:
    """By a sign, by words for a screen reader, in the tooltip, and with what it means."""
    browser.open(small)
    assert browser.column("#") == ["1", "≈ tied for the best, rank 2", "–"]
    browser.element("details.reading summary").click()
    assert "≈: tied for the best." in [note.text for note in browser.all("p.note")]
    browser.run("arguments[0].focus()", browser.all("tbody th")[1])
    assert "≈ tied for the best" in browser.tip().splitlines()


def test_suites_are_tabs(browser: Browser, small: Path) -> None:
    """The arrow keys change the suite; each has its own columns; a link with its name opens it."""
    browser.open(small)
    tabs = browser.driver.find_elements(By.CSS_SELECTOR, "[role=tab]")
    assert [tab.text for tab in tabs] == ["sts", "pocket"]
    tabs[0].send_keys(Keys.ARROW_RIGHT)
    assert browser.run("return document.activeElement.id") == "tab-pocket"
    assert "Topics" in [button.text for button in browser.all("thead button")]
    assert len(browser.all("tbody tr")) == 1
    browser.driver.get("about:blank")
    browser.driver.get(small.as_uri() + "#pocket")
    tabs = browser.driver.find_elements(By.CSS_SELECTOR, "[role=tab]")
    assert [tab.get_attribute("aria-selected") for tab in tabs] == ["false", "true"]
    assert browser.problems() == []


def test_what_is_shown_stands_in_the_address(browser: Browser, wide: Path) -> None:
    """Filter, sorting, groups and ticks: the address that results shows the same page again, from its top."""
    browser.open(wide, address="")
    browser.element("input[type=search]").send_keys("method-1, method-2")
    browser.head("task-7").click()
    next(label for label in browser.all(".controls label") if label.text == "in groups").click()
    browser.element("tbody tr:not([hidden]):not(.group) input").click()
    address = browser.run("return location.hash")
    assert all(part in address for part in ("method=method-1", "sort=task-7", "groups", "ticked"))
    before = browser.column("Method"), browser.column("task-7"), len(browser.all("tbody input:checked"))
    browser.driver.get("about:blank")
    browser.driver.get(wide.as_uri() + address)
    assert (browser.column("Method"), browser.column("task-7"), len(browser.all("tbody input:checked"))) == before
    assert browser.run("return scrollY") == 0 and browser.element("h2").is_displayed()
    assert browser.problems() == []


def test_rows_of_one_condition_stand_together(browser: Browser, wide: Path) -> None:
    """In groups, if wanted: a line names each condition, and under it the rows keep their order."""
    browser.open(wide)
    ranked = browser.column("Method")
    browser.open(wide, address="groups=")
    heads = [line.text.partition(":")[0] for line in browser.all("tbody tr.group")]
    assert len(heads) > 1 and heads == sorted(set(heads), key=heads.index)
    script = """
    const found = {};
    let name = null;
    for (const line of document.querySelectorAll("section:not([hidden]) tbody tr")) {
      if (line.classList.contains("group")) found[name = line.textContent.split(":")[0]] = [];
      else found[name].push(line.row.method);
    }
    return found;"""
    groups = browser.run(script)
    assert sorted(name for names in groups.values() for name in names) == sorted(ranked)
    for names in groups.values():
        assert names == sorted(names, key=ranked.index)
    assert browser.problems() == []


def test_methods_link_to_their_papers_and_pages(browser: Browser, tmp_path: Path) -> None:
    """A column of papers; names lead to the handbook where it lies near, by Enter on the cell too."""
    records = method_records("simcse:epochs=2", 0.5) + method_records("random", 0.4) + method_records("alpha", 0.3)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "simcse.md").write_text("# SimCSE\n")
    path = tmp_path / "index.html"
    path.write_text(page(build_tables(records, [suite("sts")]), handbook="docs"), encoding="utf-8")
    browser.open(path)
    assert browser.column("Paper") == ["SimCSE 2021", "–", "–"]
    links = {link.text: link.get_attribute("href") for link in browser.all("tbody a")}
    assert links["SimCSE 2021"] == "https://aclanthology.org/2021.emnlp-main.552/"
    assert links["simcse:epochs=2"].endswith("/docs/simcse.md") and links["random"].endswith("/docs/controls.md")
    assert "alpha" not in links
    browser.run("arguments[0].focus()", browser.all("tbody th")[0])
    assert "Tianyu Gao" in browser.tip()
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.driver.current_url.endswith("/docs/simcse.md")
    path.write_text(page(build_tables(records, [suite("sts")])), encoding="utf-8")
    browser.open(path)
    assert [link.text for link in browser.all("tbody a")] == ["SimCSE 2021"]
    assert browser.problems() == []


def test_a_table_links_to_its_files(browser: Browser, tmp_path: Path) -> None:
    """Each form of the table that lies beside the page, and JSON, which the page gives itself."""
    tables = build_tables(method_records("alpha", 0.4), [suite("sts")])
    page_text = page(tables, ("sts.md", "sts.csv", "words.csv", "sts-published.md"))
    (tmp_path / "index.html").write_text(page_text, encoding="utf-8")
    browser.open(tmp_path / "index.html")
    links = [link.get_attribute("href").rpartition("/")[2] for link in browser.all("p a")]
    assert links == ["sts.md", "sts.csv", "sts-published.md"]
    browser.run("URL.createObjectURL = (blob) => { window.given = blob.text(); return 'data:,x'; };")
    browser.element(".files button").click()
    given = json.loads(browser.driver.execute_async_script("window.given.then(arguments[0])"))
    assert [row["method"] for row in given["rows"]] == ["alpha"] and given["rows"][0]["average"]["mean"] == 43.0
    assert browser.problems() == []


def test_a_narrow_screen_and_reduced_motion(browser: Browser, wide: Path) -> None:
    """360 pixels: only the table's box scrolls sideways, and most of it is numbers; nothing moves on request."""
    browser.open(wide, 360, prefers_reduced_motion="reduce")
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    box, name = browser.element(".box"), browser.element("tbody th")
    browser.run("arguments[0].scrollLeft = 800", box)
    assert browser.run("return arguments[0].scrollLeft", box) == 800
    indent = name.rect["x"] - box.rect["x"]
    assert 0 <= indent < 2
    assert name.rect["width"] < 130
    moves = "return getComputedStyle(document.getElementById('theme')).transitionDuration"
    assert browser.run(moves) == "0s"
    browser.open(wide, 360)
    assert browser.run(moves) != "0s"
    assert browser.problems() == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_tables(browser: Browser, small: Path, scheme: str) -> None:
    browser.open(small, prefers_color_scheme=scheme)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.findings() == []


def test_the_best_row_stands_at_the_top_of_the_groups(browser: Browser, wide: Path) -> None:
    """Groups follow their best row, by whatever the table is sorted by."""
    browser.open(wide)
    groups = browser.run("""
      const table = document.querySelector('table[role=grid]');
      const label = [...document.querySelectorAll('.controls label')].find((one) => one.textContent === 'in groups');
      label.querySelector('input').click();
      return [...table.tBodies[0].rows].map((line) => line.className === 'group' ? 'group' : line.row.rank);
    """)
    firsts = [groups[i + 1] for i, one in enumerate(groups) if one == "group"]
    assert firsts[0] == 1 and firsts == sorted(firsts) and len(firsts) > 1


def test_rows_are_filtered_by_what_they_cost(browser: Browser, wide: Path) -> None:
    """A limit hides the rows beyond it and those of which nothing is known; it stands in the address."""
    browser.open(wide)
    count = """
      const field = document.querySelector('.controls input[type=number]');
      field.value = arguments[0];
      field.dispatchEvent(new Event('input', { bubbles: true }));
      return [...document.querySelectorAll('tbody tr')].filter((line) => line.row && !line.hidden).length;
    """
    label = browser.run("return document.querySelector('.controls input[type=number]').ariaLabel")
    assert label == "at least texts/s"
    everything, known = browser.run(count, ""), browser.run(count, "0.001")
    assert 0 < known <= everything and browser.run(count, "1e12") == 0
    assert "texts_per_second=1e12" in browser.driver.current_url
    assert browser.run(count, "") == everything


LABEL = "[...document.querySelectorAll('.controls label')].find((one) => one.textContent === arguments[0])"


def test_a_heat_map_is_darker_where_more_rows_are_below(browser: Browser, wide: Path) -> None:
    browser.open(wide)
    browser.run(f"{LABEL}.querySelector('input').click()", "heat map")
    heats = browser.run("""
      const heat = (line) => Number(line.querySelector('.average').style.getPropertyValue('--heat'));
      const lines = [...document.querySelectorAll('tbody tr')].filter((line) => line.row?.average.mean);
      return lines.map((line) => [line.row.average.mean, heat(line)]);
    """)
    ordered = sorted(heats)
    assert ordered[0][1] == 0 and ordered[-1][1] == 1
    assert [heat for _, heat in ordered] == sorted(heat for _, heat in heats)


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_a_plot_is_saved_as_it_is_seen(browser: Browser, wide: Path, kind: str) -> None:
    """The file states its own colours, because the page's style sheet is not beside it."""
    browser.open(wide)
    script = """
      window.saved = new Promise((resolve) => {
        URL.createObjectURL = (blob) => { resolve(blob.arrayBuffer()); return 'data:,x'; };
      });
      [...document.querySelectorAll('.save button')].find((one) => one.textContent === arguments[0]).click();
    """
    browser.run(script, kind)
    decoded = "window.saved.then((data) => arguments[0](new TextDecoder('latin1').decode(data)))"
    text = browser.driver.execute_async_script(decoded)
    if kind == "PNG":
        assert text[1:4] == "PNG" and len(text) > 2_000
    else:
        assert text.startswith("<svg") and "xmlns" in text and "fill: rgb(" in text and "<text" in text
    assert browser.problems() == []
