"""`zoo-bench methods`: the recipes for --methods by family, or some of them in full."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import (
    joined,
    json_option,
    line_width,
    load_plugins,
    matches,
    plugin_option,
    say,
    say_json,
    say_prose,
)
from benchmark.report.terminal import hanging, wrapped
from zoo.errors import UsageError, did_you_mean
from zoo.plugins import FAMILIES, METHODS
from zoo.progress import counted
from zoo.recipes import OVERRIDE, RecipeSpec, all_recipes, choices, papers_of, parent_file, read_recipe
from zoo.selection import parse_methods

if TYPE_CHECKING:
    from zoo.encoder import AnyRecipe, Traits


@click.command("methods")
@click.argument("names", nargs=-1, type=METHODS_LIST, callback=joined)
@click.option("--family", help="Only methods of this family, or of this registered method (contrastive, moco ...).")
@click.option(
    "--show", is_flag=True, help="Print the recipes NAMES (as --methods takes them) with all that is known of them."
)
@json_option
@plugin_option
def command(names: str | None, family: str | None, show: bool, as_json: bool, plugins: tuple[Path, ...]) -> None:
    """List the recipes that --methods takes, by family; NAMES are globs, or words to look for in names and summaries.

    With --show: settings with defaults and reasons, differences between paper and released code, conditions, and the
    cost on this machine.
    """
    load_plugins(plugins)
    if show:
        if names is None:
            raise UsageError("name what to show, as in `zoo-bench methods simcse --show`.")
        _show(names, as_json)
        return
    specs = _chosen(names, family)
    if as_json:
        say_json([_listed(spec) for spec in specs])
        return
    if specs:
        _print_families(specs)
    for name, reason in _broken(names).items():
        say_prose(f"broken: {name}: {reason}")


def _broken(names: str | None) -> dict[str, str]:
    """Return the broken plugins among NAMES, as far as they are known without an import."""
    wanted = [word.strip() for word in names.split(",")] if names else ["*"]
    return {name: why for name, why in METHODS.broken().items() if any(matches(word, name) for word in wanted)}


def _chosen(names: str | None, family: str | None) -> list[RecipeSpec]:
    recipes = all_recipes()
    methods = {spec.method for spec in recipes.values()}
    if family is not None and family not in {*FAMILIES, *methods}:
        raise UsageError(
            f"unknown family {family!r}.{did_you_mean(family, {*FAMILIES, *methods})} Families: {', '.join(FAMILIES)};"
            " a registered method's name works as well."
        )
    wanted = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
    specs = [
        spec
        for spec in recipes.values()
        if (family is None or family in (METHODS.card(spec.method).family, spec.method))
        and (wanted is None or any(matches(word, spec.name, spec.method, spec.summary, spec.paper) for word in wanted))
    ]
    if not specs and not _broken(names):
        asked = " ".join(part for part in (names, family) if part)
        raise UsageError(f"no recipe fits {asked!r}.{did_you_mean(str(names), recipes)} `zoo-bench methods` lists all.")
    return specs


def _listed(spec: RecipeSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "family": METHODS.card(spec.method).family,
        "method": spec.method,
        "summary": spec.summary,
        "paper": spec.paper,
        "control": spec.control,
        "extends": spec.extends or None,
        "parameters": dict(spec.parameters),
        "origin": spec.origin,
    }


def _print_families(specs: list[RecipeSpec]) -> None:
    width = line_width()
    # A name that is longer stands on a line of its own.
    indent = min(28, max(len(spec.name) for spec in specs) + 4)
    by_family: dict[str, list[RecipeSpec]] = {}
    for spec in specs:
        by_family.setdefault(METHODS.card(spec.method).family, []).append(spec)
    for family in (name for name in FAMILIES if name in by_family):
        say("\n".join(wrapped(f"{family}: {FAMILIES[family]}", width)))
        for spec in sorted(by_family[family], key=lambda recipe: (recipe.method, recipe.name)):
            say("\n".join(hanging(f"  {spec.name}", spec.summary, indent, width)))
            if not METHODS.is_builtin(spec.method) and spec.origin not in spec.summary:
                say(f"    from {spec.origin}")
    name = specs[0].name if len(specs) == 1 else "NAME"
    whose = "its" if len(specs) == 1 else "their"
    say(f"{counted(len(specs), 'recipe')}; `zoo-bench methods {name} --show` prints {whose} settings.")


def _show(names: str, as_json: bool) -> None:
    recipes = all_recipes()
    specs = parse_methods(names, recipes)
    explanations = [explained(spec, recipes) for spec in specs]
    if as_json:
        say_json(explanations)
    else:
        say("\n\n".join("\n".join(_lines(explanation)) for explanation in explanations))


def _lines(explanation: Mapping[str, Any]) -> Iterable[str]:
    """Return YAML: settings as keys, everything else in comments."""
    yield f"# {explanation['name']} ({explanation['origin']})"
    head = {key: explanation[key] for key in ("method", "extends", "summary", "paper", "control") if explanation[key]}
    yield from (f"{key}: {_value(value)}" for key, value in head.items())
    yield from _notes("How to cite", [f"{paper['cited']} {paper['url']}" for paper in explanation["papers"]])
    yield from _notes("Family", [f"{explanation['family']}: {FAMILIES[explanation['family']]}"])
    yield "parameters:"
    for setting in explanation["settings"]:
        if setting["choices"]:
            yield from _comment(f"one of: {', '.join(map(str, setting['choices']))}", "  # ")
        yield from _comment(setting["reason"], "  # ")
        stated = setting["stated_by"]
        other = setting["value"] != setting["default"]
        default = f", default {_value(setting['default'])}" if other else ""
        yield f"  {setting['name']}: {_value(setting['value'])}  # {stated}{default}"
    points = [f"{point}: {text}" for point, text in explanation["open"].items()]
    yield from _notes("Open in the paper, and filled by this recipe", points)
    yield from _notes("Paper against code", [_note(note, explanation["name"]) for note in explanation["notes"]])
    other_form = explanation["other_form"]
    if other_form:
        differs = [f"{key}: {_value(a)} here, {_value(b)} there" for key, (a, b) in other_form["differs"].items()]
        yield from _notes(f"Against {other_form['recipe']} ({other_form['summary']})", differs or ["nothing differs"])
    yield from _notes("Conditions", explanation["conditions"] or ["It learns nothing and depends on no seed."])


def _note(note: Mapping[str, str], name: str) -> str:
    return note["text"] if note["recipe"] == name.split(":")[0] else f"(of {note['recipe']}) {note['text']}"


def _notes(title: str, texts: Iterable[str]) -> Iterable[str]:
    lines = [line for text in texts for line in _comment(text, "#   ")]
    if lines:
        yield from _comment(f"{title}:", "# ")
        yield from lines


def _comment(text: str, start: str) -> list[str]:
    return wrapped(text, line_width(), start, start)


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def explained(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec]) -> dict[str, object]:
    """Raises UsageError for a wrong recipe."""
    cls, recipe = spec.resolve()
    traits = cls.traits(recipe)
    why, allowed = reasons(cls.Recipe), choices(cls.Recipe)
    settings = [
        {
            "name": field.name,
            "value": getattr(recipe, field.name),
            "default": None if field.default is dataclasses.MISSING else field.default,
            "stated_by": spec.stated_by.get(field.name, "default"),
            "reason": why.get(field.name, ""),
            "choices": list(allowed.get(field.name, ())),
        }
        for field in dataclasses.fields(recipe)
    ]
    return {
        **_listed(spec),
        "papers": [{"cited": paper.cited(), "url": paper.url} for paper in papers_of(spec, recipes)],
        "notes": [{"recipe": name, "text": text} for name, text in notes(spec)],
        "open": {k: v for k, v in spec.open.items() if spec.stated_by.get(k) != OVERRIDE},
        "settings": settings,
        "other_form": other_form(spec, recipe, recipes),
        "conditions": conditions_of(traits),
    }


def other_form(spec: RecipeSpec, recipe: AnyRecipe, recipes: Mapping[str, RecipeSpec]) -> dict[str, Any] | None:
    """Return the differences of a paper's recipe and its code's (NAME and NAME-repo)."""
    base = spec.recipe_name or spec.name
    name = base.removesuffix("-repo") if base.endswith("-repo") else f"{base}-repo"
    if name not in recipes or recipes[name].method != spec.method:
        return None
    try:
        _, other = recipes[name].resolve()
    except UsageError:
        return None
    fields = [field.name for field in dataclasses.fields(recipe)]
    differs = {f: [getattr(recipe, f), getattr(other, f)] for f in fields if getattr(recipe, f) != getattr(other, f)}
    return {"recipe": name, "summary": recipes[name].summary, "differs": differs}


def conditions_of(traits: Traits) -> list[str]:
    sentences = {
        "Its weights are finished and were trained elsewhere.": traits.released,
        "It is a backbone's own states, pooled; nothing is trained.": traits.untrained,
        "It learns from sentences (--corpus).": traits.needs_corpus,
        "It learns from labelled pairs (--pairs).": traits.needs_pairs and not traits.ignores_labels,
        "It learns from the sentences of labelled pairs (--pairs), not from the labels.": traits.needs_pairs
        and traits.ignores_labels,
        "It is fitted on the texts of each task (transductive).": traits.transductive,
        "A development set picks its checkpoint (--dev).": traits.picks_checkpoint,
        "Its vectors depend on the seed (--seeds).": traits.stochastic,
        "A task with a text that it does not know is n/a.": traits.needs_every_text,
        "Two single words have no similarity for it.": traits.needs_several_words,
        "Tasks that fine-tune the encoder can train it.": traits.fine_tunes,
        "`zoo-bench export` writes it for sentence-transformers.": traits.exports,
        f"It computes in {traits.precision} whatever --precision says.": traits.precision is not None,
    }
    return [sentence for sentence, holds in sentences.items() if holds]


_FIELD = re.compile(r"    (\w+)\s*:(.*)")
_FOR_LINTERS = ("noqa", "type: ignore")


def reasons(recipe: type[Any]) -> dict[str, str]:
    """Return the comment of each field, on its line or directly above it, also of bases."""
    comments: dict[str, str] = {}
    for cls in reversed(recipe.__mro__):
        if dataclasses.is_dataclass(cls):
            comments |= {name: comment for name, comment in _of_class(cls).items() if comment}
    return {field.name: comments[field.name] for field in dataclasses.fields(recipe) if field.name in comments}


def _of_class(cls: type[Any]) -> dict[str, str]:
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        # A class without a source file, as in a notebook.
        return {}
    comments, above = {}, list[str]()
    for line in source.splitlines():
        if line.strip().startswith("# "):
            above.append(line.strip().removeprefix("# "))
            continue
        if field := _FIELD.match(line):
            behind = [text.strip() for text in field[2].split("  # ")[1:] if not text.startswith(_FOR_LINTERS)]
            comments[field[1]] = " ".join([*above, *behind])
        above = []
    return comments


def notes(spec: RecipeSpec) -> list[tuple[str, str]]:
    """Return (recipe, text) from the tops of the files of a recipe and its bases."""
    notes_of = []
    while spec.origin.endswith((".yaml", ".yml")):
        path = Path(spec.origin)
        lines = path.read_text(encoding="utf-8").splitlines()
        head = [line.lstrip("#").strip() for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
        notes_of += [(path.stem, " ".join(head))] if head else []
        if not spec.extends:
            break
        spec = read_recipe(parent_file(path, spec.extends))
    return notes_of
