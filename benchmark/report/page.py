"""A single HTML page of all tables: a small script draws a JSON block, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from benchmark.report.links import links_of
from benchmark.report.render import TEMPLATES, fill
from benchmark.report.rows import Table
from benchmark.report.write import as_dict
from zoo import __version__


def page(
    tables: Sequence[Table],
    files: Sequence[str] = (),
    handbook: str = "",
    claims: Sequence[Mapping[str, object]] = (),
) -> str:
    """Return the HTML page of the tables; its data are those of `zoo-bench leaderboard --json`.

    `files` are the names of the tables' files beside the page, `handbook` the relative path to the handbook's pages of
    methods, `claims` those of `verdicts.ledger`.
    """
    commands = list(dict.fromkeys(command for table in tables for command in table.commands))
    place = {command: number for number, command in enumerate(commands)}  # the tables of a run share its commands
    data = {
        "tables": [
            as_dict(table, drawn=True) | {"commands": [place[command] for command in table.commands]}
            for table in tables
        ],
        "commands": commands,
        "files": {table.stem: _files_of(table, files) for table in tables},
        "papers": _papers(tables),
        "handbook": handbook,
        **({"claims": claims} if claims else {}),
    }
    title = tables[0].suite.title if len(tables) == 1 else "zoo-bench leaderboard"
    scripts = ("common.js", "zoom.js", "plots.js", "table.js", "print.js", *(("claims.js",) if claims else ()))
    scripts += ("leaderboard.js",)
    script = Markup("\n").join(map(_inlined, scripts))
    return fill("page.html.j2", version=__version__, style=_inlined("style.css"), script=script, title=title, data=data)


def _papers(tables: Sequence[Table]) -> dict[str, dict[str, str]]:
    papers = {paper.name: paper for table in tables for row in table.rows for paper in links_of(row).papers}
    return {
        name: {"short": f"{name} {paper.year}", "cited": paper.cited(), "url": paper.url}
        for name, paper in sorted(papers.items())
    }


def _inlined(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _files_of(table: Table, files: Sequence[str]) -> list[str]:
    """JSON and LaTeX are absent, because the page offers JSON itself."""
    stems = (table.stem, f"{table.stem}-published")
    return [name for name in files if name.rpartition(".")[0] in stems and name.endswith((".md", ".csv"))]
