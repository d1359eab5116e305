"""The conditions of a row: what it learned from, its backbone, and the test texts that it has seen."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.recipes import SOURCES, all_recipes
from zoo.selection import split_overrides

if TYPE_CHECKING:
    from benchmark.records.record import MethodPart
    from benchmark.report.rows import About, Row
    from zoo.recipes import RecipeSpec

HARDLY_MOVED = 0.999  # mean cosine of vectors after and before training
CONTROL, UNTRAINED = "control", "untrained backbone"
GROUPS = {
    "untrained": "nothing is trained in this run",
    "unsupervised": "trained on sentences without labels",
    "supervised": "trained on labelled pairs",
    "transductive": "fitted on the test texts themselves",
    "released": "finished weights, trained elsewhere, perhaps on labels",
    "controls": "what every method is measured against",
}
# Names of recipes in older records.
_FORMER = {f"moco-{how}repo": f"moco-{how}q320" for how in ("", "reorder-", "delete-", "duplicate-")}
_SAME_NAME = re.compile(r" \[[0-9a-f]{8}\]$")  # the suffix by which tables distinguish rows with the same name


@functools.cache  # called for every row and every printed row
def recipe_of(name: str) -> tuple[str, dict[str, object]]:
    """Return the recipe of a table's row and its overrides, without those that only say where weights are."""
    base, overrides = split_overrides(_SAME_NAME.sub("", name), "row")
    own = {key: value for key, value in overrides.items() if key not in ("backbone", "revision")}
    return _FORMER.get(base, base), own


@functools.cache
def recipes() -> dict[str, RecipeSpec]:
    """Return all recipes, read once for the rows of all tables."""
    return all_recipes()


@functools.cache
def _controls() -> frozenset[str]:
    return frozenset(name for name, spec in recipes().items() if spec.control)


def setting(method: MethodPart) -> str:
    """Return the kind of training data that a record's method used in its run; `released`: it was trained elsewhere."""
    traits = method["traits"]
    if traits["transductive"]:
        return "transductive"
    if traits.get("needs_pairs") and not traits.get("ignores_labels"):
        return "supervised"
    if traits.get("released"):
        return "released"
    return "unsupervised" if traits.get("needs_corpus") or traits.get("needs_pairs") else "untrained"


def role(row: Row) -> str:
    """Return CONTROL for a recipe with `control: true`, UNTRAINED for a backbone that is only pooled, else ""."""
    if recipe_of(row.recipe or row.identity)[0] in _controls():
        return CONTROL
    return UNTRAINED if row.untrained else ""


def group(row: Row) -> str:
    """Return the condition group of a row, one of GROUPS: controls form their own, others are grouped by setting."""
    return "controls" if role(row) == CONTROL else str(row.about["setting"])


def changed_settings(method: MethodPart) -> list[str]:
    """Return a record's settings that differ from its recipe of today: the recipe has changed since the measurement.

    Settings that a recipe leaves to its method are not compared, because that would import every method for a table.
    """
    name, overrides = recipe_of(method.get("recipe_name") or method["name"])
    spec = recipes().get(name)
    stated = {} if spec is None else {**spec.parameters, **overrides}
    recorded = method["recipe"]
    return [
        key
        for key, value in stated.items()
        if key not in SOURCES and not (key in recorded and _same_setting(recorded[key], value))
    ]


def tuned(method: MethodPart) -> str:
    """Return the budget and the task that chose a record's settings; "" where the recipe states its own."""
    study = method.get("tuned")
    return "" if study is None else f"{study['trials']} trials on {study['dev']}"


def _same_setting(recorded: object, stated: object) -> bool:
    """Return whether a record's setting equals that of a YAML file, where `3e-5` is text and a tuple is a list."""
    if isinstance(recorded, list | tuple) and isinstance(stated, list | tuple):
        return len(recorded) == len(stated) and all(map(_same_setting, recorded, stated))
    if isinstance(stated, str) and isinstance(recorded, float):
        try:
            return float(stated) == recorded
        except ValueError:
            return False
    return bool(recorded == stated)


def redefined(about: About) -> str:
    """Return a warning with a row's settings that are no longer those of its recipe; "" for none."""
    changed = about["changed_settings"]
    return f"⚠ measured before its recipe changed ({changed})" if changed else ""


def backbone_of(about: About) -> str:
    """Return the backbone, and the labelled pairs in its weights' ancestry, if it states any."""
    return ", ".join(filter(None, [str(about["backbone"] or "no backbone"), about["ancestry"]]))


def learned_from(about: About) -> str:
    """Return the training text and its size, after "supervised: " where labels were read; "" without training text."""
    if not about["corpus"]:
        return ""
    pairs, sentences = about["corpus_pairs"], about["corpus_sentences"]
    size = f"{sentences or 0:,} sentences" if pairs is None else f"{pairs:,} labelled pairs"
    supervised = "supervised: " if about["setting"] == "supervised" else ""
    return f"{supervised}{size} of {about['corpus']}"


def contamination(about: About) -> str:
    """Return a warning with the number of the table's test texts in the training text, if known; "" for none."""
    count = about["test_texts_in_training"]
    if not count:
        return ""
    return f"⚠ {count:,} test text{' is' if count == 1 else 's are'} in the training text"


def trained(about: About) -> str:
    """Return the updates as a share of the paper's, and whether the vectors hardly moved; "" where neither is known."""
    share, cosine = about["updates_share"], about["cosine_to_start"]
    hardly = cosine is not None and cosine > HARDLY_MOVED
    parts = [
        "" if share is None else f"{100 * share:.2g}% of the paper's updates",
        f"⚠ hardly trained (cosine {cosine:.6f} with the untrained vectors)" if hardly else "",
    ]
    return ", ".join(filter(None, parts))


def chosen_on(about: About) -> str:
    """Return the development set that picked the checkpoint and its number of test pairs; "" without such a set."""
    task, pairs, in_test = about["dev_task"], about["dev_pairs"], about["dev_pairs_in_test"]
    if not task:
        return ""
    name = f"checkpoint by {task}" + ("" if "dev" in task else " dev")
    if pairs is None or in_test is None:
        return name
    if not in_test:
        return f"{name} (none of its {pairs:,} pairs is an STS test pair)"
    return f"{name} (⚠ {in_test:,} of its {pairs:,} pairs are STS test pairs)"


def conditions(row: Row) -> str:
    """Return a row's backbone, precision, training text, caveats and seeds on one line."""
    about = row.about
    by = f"encoded by {about['run_by']}" if about["run_by"] else ""
    parts = [role(row), backbone_of(about), about["precision"], by, learned_from(about)]
    if about["transductive"]:
        parts.append("transductive: fitted on the test texts")
    parts += [
        trained(about),
        f"tuned ({about['tuned']})" if about["tuned"] else "",
        contamination(about),
        chosen_on(about),
        redefined(about),
    ]
    parts.append(row.missing_seeds or (f"{about['seeds']} seeds" if about["seeds"] > 1 else ""))
    return ", ".join(filter(None, parts))


def ancestry_lines(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each backbone trained on labelled pairs, for tables that print no conditions."""
    said = [(row.about["backbone"], row.about["ancestry"]) for row in rows if row.about["ancestry"]]
    return [
        f"{backbone} descends from weights that were trained on labelled pairs: {ancestry}."
        for backbone, ancestry in dict.fromkeys(said)
    ]


def environment_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each distinct environment of the rows' records, and one where several versions made them."""
    lines = list(dict.fromkeys(line for row in rows for line in row.about["environments"]))
    kinds = {"versions": {row.about["version"] for row in rows}, "commits": {row.about["code"] for row in rows}}
    made = {kind: sorted({one for text in texts for one in text.split(", ")}) for kind, texts in kinds.items()}
    several = [f"{kind} {', '.join(names)}" for kind, names in made.items() if len(names) > 1]
    return [*lines, f"Rows of several {' and '.join(several)}."] if several else lines
