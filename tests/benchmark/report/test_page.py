"""The HTML page: what the tables say, nothing executed, nothing loaded, small and quick."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import failed, make_record
from page_fakes import EVIL, SEVEN, data_of, method_records, renamed, training, wide_table

from benchmark.report.links import handbook_from
from benchmark.report.page import TEMPLATES, page
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict
from benchmark.tasks.suites import suite


def test_a_name_of_the_scripts_is_declared_once() -> None:
    """A page has all of them in one script, which a second declaration would stop."""
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.js"))
    names = re.findall(r"(?m)^(?:const|let|function|class) +(\w+)", scripts)
    assert len(names) > 100 and len(set(names)) == len(names)


def test_the_data_block_holds_the_table() -> None:
    """Every number, rank, reason and command of the table, and each seed's score from the records."""
    records = method_records("alpha", 0.4, range(3)) + method_records("beta", 0.6)
    records += [failed(make_record("gamma", task), "no  data\nhere", "n/a") for task in SEVEN[:2]]
    records += method_records("gamma", 0.5, tasks=SEVEN[2:])
    (table,) = build_tables(records, [suite("sts")])
    (section,) = data_of(page([table]))["tables"]
    assert section["tasks"] == list(SEVEN)
    assert section["commands"] == table.commands
    expected = as_dict(table, drawn=True)
    assert section == json.loads(json.dumps(expected))
    assert [row["rank"] for row in section["rows"]] == [1, 2, None]
    for row, wanted in zip(section["rows"], table.rows, strict=True):
        cells = [(row["scores"][task], wanted.values[task]) for task in SEVEN] + [(row["average"], wanted.average)]
        for cell, value in cells:
            assert (cell["seeds"], cell.get("reason")) == (value.seeds, value.reason)
            for key, number in (("mean", value.mean), ("sd", value.sd)):
                assert cell[key] == (None if number is None else pytest.approx(number, abs=5.1e-7))
    alpha = next(row for row in section["rows"] if row["method"] == "alpha")
    assert alpha["scores"]["STS12"]["by_seed"] == [[0, 40.0], [1, 40.1], [2, 40.2]]
    gamma = section["rows"][-1]
    assert gamma["scores"]["STS12"] == {"mean": None, "sd": None, "seeds": 0, "reason": "no data here"}
    assert gamma["not_available"] == [f"{', '.join(SEVEN[:2])}: no data here"]


def test_curves_are_the_dev_scores_in_the_order_of_the_steps() -> None:
    """Steps are numbers: 1000 comes after 250; a row without training has none."""
    records = method_records("m", 0.5, range(2), training=training({"1000": 51.5, "250": 50.25})) + method_records(
        "n", 0.4
    )
    (section,) = data_of(page(build_tables(records, [suite("sts")])))["tables"]
    curve = [[250, 50.25], [1000, 51.5]]
    assert [row.get("curves", []) for row in section["rows"]] == [
        [{"seed": 0, "points": curve}, {"seed": 1, "points": curve}],
        [],
    ]


def test_cost_and_cited_systems_are_in_the_data_block() -> None:
    """What a row cost, what kind of control it is; systems that no recipe makes, in their suite and not in a trial."""
    records = method_records("m", 0.5) + method_records("m", 0.5, row="t", limit=50)
    for record in records:
        record["encoding"] = {"texts_per_second": 100.0}
        record["facts"] = {"dimensions": 256, "parameters": 5_294_080}
        record["method"]["traits"]["untrained"] = True
    tables = build_tables(records, [suite("sts")])
    full, trial = data_of(page(tables))["tables"]
    (row,) = full["rows"]
    assert (row["dimensions"], row["parameters"], row["device"]) == (256, 5_294_080, "a cpu, 2 threads")
    assert row["control"] == "untrained backbone"
    skip = next(one for one in full["cited"] if one["method"] == "SkipThought")
    assert set(skip["printed"]) <= {*SEVEN, "Avg"} and skip["printed"] and skip["cited"] and skip["reasons"]
    assert trial["cited"] == []


def test_a_name_that_is_html_stays_text() -> None:
    """Method names, reasons and titles cannot close the script element or open another."""
    plain = page([wide_table(3, 2)])
    table = renamed(wide_table(3, 2), 0, EVIL)
    table.rows[1].notes.append(EVIL)
    html = page([table])
    assert data_of(html)["tables"][0]["rows"][0]["method"] == EVIL
    for tag in ("<script", "</script", "<img"):
        assert html.lower().count(tag) == plain.lower().count(tag)
    assert "\u2028" not in page([renamed(table, 0, "a\u2028b")])


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({}, "untrained"),
        ({"traits": {"needs_corpus": True, "transductive": False}}, "unsupervised"),
        ({"traits": {"needs_corpus": False, "needs_pairs": True, "transductive": False}}, "supervised"),
        ({"traits": {"needs_corpus": False, "needs_pairs": True, "transductive": True}}, "transductive"),
        ({"traits": {"needs_pairs": True, "ignores_labels": True, "transductive": False}}, "unsupervised"),
        ({"traits": {"released": True, "transductive": False}}, "released"),
    ],
)
def test_the_setting_says_what_a_method_learns_from(changes: dict[str, Any], setting: str) -> None:
    """A transform of the sentences of pairs uses no label; finished weights may have."""
    records = method_records("m", 0.5)
    for record in records:
        record["method"] |= changes
    (section,) = data_of(page(build_tables(records, [suite("sts")])))["tables"]
    assert section["rows"][0]["setting"] == setting


def test_nothing_is_loaded_from_anywhere() -> None:
    """No address but the namespace of SVG and the links to papers, and a policy that forbids the rest."""
    html = page([renamed(wide_table(3, 2), 0, "simcse")])
    papers = {paper["url"] for paper in data_of(html)["papers"].values()}
    assert papers == {"https://aclanthology.org/2021.emnlp-main.552/"}
    assert set(re.findall(r"https?://[^\"'\s]+", html)) <= {"http://www.w3.org/2000/svg", *papers}
    assert not re.search(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|<link [^>]*stylesheet|\bsrc=", html)
    assert "default-src 'none'" in html
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write", html)


@pytest.mark.slow
def test_the_handbook_is_found_from_the_pages_folder(tmp_path: Path) -> None:
    """The checkout around the page decides, also when zoo is installed elsewhere, as from a wheel."""
    (tmp_path / "clone/docs/methods").mkdir(parents=True)
    page_folder = tmp_path / "clone/leaderboards/mine"
    assert handbook_from(page_folder) == "", "any docs/methods is not zoo-bench's"
    (tmp_path / "clone/zoo").mkdir()
    (tmp_path / "clone/zoo/recipes.py").touch()
    assert handbook_from(page_folder) == "../../docs/methods"
    assert handbook_from(tmp_path / "elsewhere") == ""


def test_60_methods_and_40_tasks_are_small() -> None:
    """Three seeds each, every seed's score with them: under 3 MB."""
    table = wide_table(60, 40)
    html = page([table])
    (section,) = data_of(html)["tables"]
    assert len(section["rows"]) == 60
    assert all(len(cell["by_seed"]) == 3 for row in section["rows"] for cell in row["scores"].values() if cell["seeds"])
    assert len(html.encode()) < 3e6


def _luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("selector", [":root", ':root[data-theme="dark"]'])
def test_text_has_contrast_in_both_themes(selector: str) -> None:
    """At least 4.5:1 for every text colour on every ground it stands on."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    block = style[style.index(selector + " {") :].partition("}")[0]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    grounds = {"bg", "panel", "hover"}
    texts = set(colours) - grounds - {"line"}
    assert len(texts) >= 12
    for text in texts:
        for ground in grounds:
            light, dark = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)
