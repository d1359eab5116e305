"""Makes one HTML page of all tables, which needs no network: a small script draws the data of a JSON block."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from benchmark.report.links import links_of, papers_named
from benchmark.report.render import TEMPLATES, fill
from benchmark.report.rows import Table
from benchmark.report.table import set_ranks
from benchmark.report.write import as_dict
from zoo import __version__


def page(
    tables: Sequence[Table],
    files: Sequence[str] = (),
    handbook: str = "",
    claims: Sequence[Mapping[str, object]] = (),
) -> str:
    """Return the HTML page of the tables: it reads the JSON of `zoo-bench leaderboard --json`, and holds what it draws.

    `files` are the names of the tables' files beside the page; a table links to its own. `handbook` is the relative
    path from the page to the handbook's pages of methods, or "". `claims` are those of `verdicts.ledger`.
    """
    parts = [part for table in tables for part in _one_protocol_each(table)]
    commands = list(dict.fromkeys(command for part in parts for command in part.commands))
    place = {command: number for number, command in enumerate(commands)}  # the tables of a run share its commands
    data = {
        "tables": [as_dict(part, drawn=True) | {"commands": [place[one] for one in part.commands]} for part in parts],
        "commands": commands,
        "files": {part.stem: _files_of(part, files) for part in parts},
        "papers": papers_named({name for part in parts for row in part.rows for name in links_of(row).papers}),
        "handbook": handbook,
        **({"claims": claims} if claims else {}),
    }
    title = parts[0].suite.title if len(parts) == 1 else "zoo-bench leaderboard"
    scripts = ("common.js", "zoom.js", "plots.js", "table.js", "print.js", *(("claims.js",) if claims else ()))
    scripts += ("leaderboard.js",)
    script = Markup("\n").join(map(_inlined, scripts))
    return fill("page.html.j2", version=__version__, style=_inlined("style.css"), script=script, title=title, data=data)


def _inlined(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _one_protocol_each(table: Table) -> list[Table]:
    """Split a table by the version of the protocol, because scores of different versions cannot be ranked together."""
    protocols = sorted({row.about["protocol"] for row in table.rows}, reverse=True)
    if len(protocols) == 1:
        return [table]
    parts = []
    for protocol in protocols:
        rows = [dataclasses.replace(row) for row in table.rows if row.about["protocol"] == protocol]
        set_ranks(rows)
        name, title = f"{table.suite.name}-protocol-{protocol}", f"{table.suite.title}, protocol {protocol}"
        suite = dataclasses.replace(table.suite, name=name, title=title)
        parts.append(dataclasses.replace(table, suite=suite, rows=rows))
    return parts


def _files_of(table: Table, files: Sequence[str]) -> list[str]:
    """Return a table's files to link to; not its JSON and LaTeX files, because the page offers JSON itself."""
    stems = (table.stem, f"{table.stem}-published")
    return [name for name in files if name.rpartition(".")[0] in stems and name.endswith((".md", ".csv"))]
