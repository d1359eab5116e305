"""What the handbook's builder does beside Markdown: links out of docs/, tables of recipes and suites, listings."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_MADE = re.compile(r"^<!-- (program|recipes|settings|suites|tasks)(?:: (.+?))? -->$", re.M)
_log = logging.getLogger("mkdocs.hooks.handbook")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's Markdown with what is generated, and with links to files outside docs/ as their paths."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    markdown = _MADE.sub(lambda found: _MAKERS[found[1]](found[2]), markdown)
    return _LINK.sub(lambda found: _outside(found, folder, page.file.src_uri), markdown)


def _outside(found: re.Match[str], folder: Path, page: str) -> str:
    """Return a link as it is inside docs/; text and path for a file elsewhere in the project, which no site has."""
    target = (folder / found[3]).resolve()
    if target.is_relative_to(ROOT / "docs"):
        return found[0]
    if not target.exists():
        _log.warning("Doc file '%s' contains a link '%s', but there is no such file in the project.", page, found[3])
    path = target.relative_to(ROOT).as_posix()
    return f"`{path}`" if found[2].strip("`/") in (path, target.name) else f"{found[2]} (`{path}`)"


def _table(header: list[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _recipes(methods: str) -> str:
    """Return a table of the recipes of some methods."""
    from zoo.explain import notes
    from zoo.recipe import all_recipes

    wanted = methods.split(", ")
    specs = [spec for spec in all_recipes().values() if spec.method in wanted]
    if missing := set(wanted) - {spec.method for spec in specs}:
        _log.warning("no recipe of %s", ", ".join(sorted(missing)))
    table = _table(["Recipe", "What it is", "Source"], ([f"`{s.name}`", s.summary, s.paper] for s in specs))
    own = ((spec.name, text) for spec in specs for name, text in notes(spec) if name == spec.name)
    return "\n".join([table, "", *(f"`{name}`\n:   {text}\n" for name, text in own)])


def _settings(name: str) -> str:
    """Return a table of a recipe's settings: what it resolves to, and where that is stated."""
    from zoo.explain import reasons
    from zoo.recipe import all_recipes

    spec = all_recipes()[name]
    _, recipe = spec.resolve()
    why = reasons(type(recipe))
    rows = []
    for field in dataclasses.fields(recipe):
        stated = spec.stated_by.get(field.name, "default")
        rows.append([f"`{field.name}`", f"`{getattr(recipe, field.name)!r}`", stated, why.get(field.name, "")])
    table = _table(["Setting", "Value", "Stated by", "Reason"], rows)
    return f"Those of `{name}`, as `zoo-bench methods {name} --show` prints them:\n\n{table}"


def _suites(_: str | None) -> str:
    """Return a table of the suites."""
    from benchmark.tasks.suites import all_suites

    rows = [[f"`{s.name}`", s.title, ", ".join(s.tasks), s.dev or "", s.seeds] for s in all_suites().values()]
    return _table(["Suite", "Title", "Tasks", "Development set", "Seeds"], rows)


def _tasks(_: str | None) -> str:
    """Return a table of the tasks."""
    from benchmark.tasks import TASKS

    rows = [[f"`{name}`", task.title, task.dataset] for name, task in TASKS.load_all() if task is not None]
    return _table(["Task", "Title", "Data set"], rows)


def _program(file: str) -> str:
    """Return a program of docs/ whole, as a listing."""
    return f"```python\n{(ROOT / 'docs' / file).read_text(encoding='utf-8')}```"


_MAKERS = {"program": _program, "recipes": _recipes, "settings": _settings, "suites": _suites, "tasks": _tasks}
