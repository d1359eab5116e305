"""A paper's citation of a table: signature and BibTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmark.data.catalog import catalog
from benchmark.report.latex import escape
from benchmark.report.links import links_of
from benchmark.report.rows import Table
from benchmark.report.signature import about_seeds, signature
from benchmark.tasks import TASKS
from zoo import __version__

YEAR = 2026  # of this version
_CITED = re.compile(r"(?P<authors>.+) (?P<year>\d{4}), (?P<title>.+)")


def citation(tables: Sequence[Table]) -> str:
    """Return a sentence for each table, then the entries of zoo-bench, papers and data sets."""
    methods = {key: entry for table in tables for key, entry in _methods(table).items()}
    data = {key: entry for table in tables for key, entry in _data(table).items()}
    cited = [f"{kind}: \\cite{{{','.join(some)}}}." for kind, some in (("Methods", methods), ("Data", data)) if some]
    software = {
        "title": "{zoo-bench}: a method zoo and a benchmark for sentence embeddings",
        "author": "{The zoo-bench authors}",
        "version": __version__,
        "year": str(YEAR),
    }
    sentences = [_sentence(table) for table in tables]
    return "\n\n".join([*sentences, *cited, _entry("software", "zoobench", software), *{**methods, **data}.values()])


def _sentence(table: Table) -> str:
    line = "|".join(map(escape, signature(table).split("|")))
    return (
        f"Scores on {escape(table.suite.title)} (x100, on {escape(', '.join(table.suite.columns))})"
        f" were measured with zoo-bench~\\cite{{zoobench}}; signature: \\texttt{{{line}}}."
        f" {about_seeds(table.rows)}"
    )


def _methods(table: Table) -> dict[str, str]:
    papers = [paper for row in table.rows for paper in links_of(row).papers]
    return {
        (key := _key(paper.name, paper.year)): _entry(
            "inproceedings" if paper.venue else "misc",
            key,
            {
                "title": f"{{{paper.title}}}",
                "author": _authors(paper.authors),
                "booktitle": paper.venue,
                "year": str(paper.year),
                "url": paper.url,
            },
        )
        for paper in papers
    }


def _data(table: Table) -> dict[str, str]:
    sets = dict.fromkeys(TASKS.get(name).dataset for name in table.suite.tasks if name in TASKS.names())
    stated = {name: _CITED.fullmatch(catalog()[name].citation) for name in sets if name in catalog()}
    return {
        (key := _key(name, paper["year"])): _entry(
            "misc",
            key,
            {
                "title": f"{{{paper['title']}}}",
                "author": _authors(paper["authors"]),
                "year": paper["year"],
                "howpublished": catalog()[name].homepage,
            },
        )
        for name, paper in stated.items()
        if paper
    }


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    escaped = {name: re.sub(r"([&%$#_])", r"\\\1", value) for name, value in fields.items() if value}
    escaped |= {name: fields[name] for name in ("url", "howpublished") if fields.get(name)}
    lines = [f"  {name} = {{{value}}}," for name, value in escaped.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _key(name: str, year: object) -> str:
    return f"{re.sub(r'[^a-z0-9]', '', name.lower().replace('++', 'pp'))}{year}"


def _authors(text: str) -> str:
    """ "A, B and C" is "A and B and C" for BibTeX; "et al." is "others"."""
    return re.sub(r" et al\.$", " and others", " and ".join(re.split(r", | and ", text)))
