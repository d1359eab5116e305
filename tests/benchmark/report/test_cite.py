"""What a paper cites: zoo-bench, each method's and data set's paper once, in BibTeX that TeX can read."""

from __future__ import annotations

import re

from page_fakes import method_records

from benchmark.report.cite import citation
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite


def test_every_key_that_a_sentence_cites_has_one_entry() -> None:
    records = [
        record for name in ("simcse", "simcse-plus-plus", "ptbert", "avg-last") for record in method_records(name, 0.5)
    ]
    text = citation(build_tables(records, [suite("sts")]))
    cited = [key for keys in re.findall(r"\\cite\{(.+?)\}", text) for key in keys.split(",")]
    entries = re.findall(r"^@(\w+)\{(\w+),$", text, re.MULTILINE)
    assert sorted(cited) == sorted(key for _, key in entries) and len(set(cited)) == len(cited)
    assert {"zoobench", "simcse2021", "simcsepp2023", "ptbert2022", "sts122012", "stsbenchmark2017"} <= {*cited}
    assert "author = {Tianyu Gao and Xingcheng Yao and Danqi Chen}" in text
    assert "author = {Agirre and others}" in text and "year = {2012}" in text
    assert text.count("{") == text.count("}")


def test_a_table_of_words_cites_its_own_data() -> None:
    text = citation(build_tables(method_records("glove", 0.5, tasks=suite("words").tasks), [suite("words")]))
    assert "simlex9992015" in text and "author = {Hill and Reichart and Korhonen}" in text and "sts122012" not in text
