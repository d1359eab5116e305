"""The space of `tune`: the same ranges for all methods, and the points left open by a paper."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.errors import UsageError, ZooError, did_you_mean
from zoo.files import parse_yaml
from zoo.recipes import OVERRIDE, SOURCES, RecipeSpec, choices

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

DEFAULT_SPACE: Mapping[str, str | list[Any]] = {
    "learning_rate": "1e-6..5e-4:log",
    "temperature": "0.02..0.5:log",
    "batch_size": [64, 128, 256],
    "pooler": ["cls", "cls_before_pooler", "avg", "avg_first_last"],
    "pooling": ["cls", "mean"],
}
# Never tuned by default: each trial has the recipe's passes over the text.
BUDGET = ("epochs", "steps")
_RANGE = re.compile(r"([\d.e+-]+?)(x?)\.\.([\d.e+-]+?)(x?)(:log)?")
# In an augmentation, such as span-delete:5x0.05.
_RATE = re.compile(r"(?<=[:x])[\d.]+(?=:|\+|$)")


@dataclass(frozen=True)
class Dimension:
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False

    def __contains__(self, value: object) -> bool:
        if self.values:
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def distribution(self) -> BaseDistribution:
        """Return optuna's distribution; a list's values are texts, for they may be lists."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.values:
            return CategoricalDistribution([json.dumps(value) for value in self.values])
        if self.integer:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def encoded(self, value: Any) -> Any:
        return json.dumps(value) if self.values else value

    def decoded(self, drawn: Any) -> Any:
        return json.loads(drawn) if self.values else drawn


def space_of(recipe: Any, stated: Mapping[str, object], where: str) -> dict[str, Dimension]:
    """Return the dimension of each key; a bound such as 4x is a multiple of the recipe's value.

    `stated` has lists, or texts such as "1e-5..3e-4:log". Raises UsageError for a key foreign to the recipe, for
    another form, and for an empty space.
    """
    fields = {field.name for field in dataclasses.fields(recipe)}
    space = {}
    for key, given in stated.items():
        if key not in fields:
            raise UsageError(f"{where}: the space has {key!r}, which is no setting of it.{did_you_mean(key, fields)}")
        if isinstance(given, list) and given:
            space[key] = Dimension(tuple(given))
            continue
        match = _RANGE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
        default = getattr(recipe, key)
        try:
            low, times, high, also_times, log = match.groups() if match else ("", "", "", "", "")
            factors = [default if sign else 1 for sign in (times, also_times)]
            bounds = [float(bound) * factor for bound, factor in zip((low, high), factors, strict=True)]
        except (TypeError, ValueError):
            bounds = []
        if not bounds or not bounds[0] < bounds[1] or (log and bounds[0] <= 0):
            raise UsageError(f"{where}: {key} has the space {given!r:.100}; give LOW..HIGH, LOW..HIGH:log or a list.")
        space[key] = Dimension(low=bounds[0], high=bounds[1], log=bool(log), integer=type(default) is int)
    if not space:
        values = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
        numbers = [f"{key}=[{v},{2 * v}]" for key, v in values.items() if type(v) in (int, float) and v > 0]
        hint = f"state a space, as in --space {numbers[0]}" if numbers else "none of its settings is a number"
        raise UsageError(f"{where} has nothing to tune by itself; {hint}.")
    return space


def default_space(recipe: Any, spec: RecipeSpec) -> dict[str, object]:
    """Return DEFAULT_SPACE for the keys with a value, and the paper's open points, or the file's own `space`.

    A recipe without a learning rate has no default space.
    """
    fields = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    if fields.get("learning_rate") is None:
        return dict(spec.space)
    space: dict[str, object] = {}
    for key, given in DEFAULT_SPACE.items():
        default = fields.get(key)
        if default is None:
            continue
        if isinstance(given, list):
            space[key] = sorted({*filter(partial(_accepts, recipe, key), given), default})
        else:
            space[key] = _widened(recipe, key, given, default)
    for key in spec.open.keys() - space.keys():
        if spec.stated_by.get(key) != OVERRIDE and key in fields:
            space[key] = _open_values(recipe, key, stated=key in spec.parameters)
    # One value is nothing to choose from.
    space = {key: given for key, given in space.items() if not isinstance(given, list) or len(given) > 1}
    return {**dict(sorted(space.items(), key=_place)), **spec.space}


def _place(item: tuple[str, object]) -> tuple[int, str]:
    names = list(DEFAULT_SPACE)
    return names.index(item[0]) if item[0] in names else len(names), item[0]


def _accepts(recipe: Any, key: str, value: object) -> bool:
    try:
        dataclasses.replace(recipe, **settings_of(recipe, {key: value}))
    except (ZooError, ValueError):
        return False
    return True


def _widened(recipe: Any, key: str, given: str, default: float) -> str:
    """Include the recipe's own value; of several rates (CT's fall together) the highest counts."""
    low, high = (float(bound) for bound in given.removesuffix(":log").split(".."))
    share = default / max([default, *getattr(recipe, "rates", ())]) if key == "learning_rate" else 1.0
    return f"{min(low * share, default):.10g}..{max(high * share, default):.10g}:log"


def _open_values(recipe: Any, key: str, *, stated: bool) -> list[Any]:
    """Return each choice, or half, once and twice a number or a rate.

    A choice stated by the recipe is its topic (`srl` of moco-srl), and stays.
    """
    default = getattr(recipe, key)
    listed: Sequence[Any] = choices(type(recipe)).get(key, (False, True) if isinstance(default, bool) else ())
    if key in (*SOURCES, *BUDGET) or (listed and stated):
        return []
    if not listed and isinstance(default, int | float):
        listed = sorted({type(default)(default * factor) for factor in (0.5, 1, 2)})
    elif not listed and isinstance(default, tuple):
        listed = [default, *([_scaled(part, factor) for part in default] for factor in (0.5, 2))]
    return [value for value in map(_plain, listed) if value == _plain(default) or _accepts(recipe, key, value)]


def _scaled(part: Any, factor: float) -> Any:
    """Multiply an augmentation's rates, kept below 1."""

    def rate(match: re.Match[str]) -> str:
        value = float(match[0])
        return f"{min(value * factor, (value + 1) / 2):.6g}"

    return _RATE.sub(rate, part) if isinstance(part, str) else part


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def own_values(recipe: Any, space: Mapping[str, Dimension]) -> dict[str, Any]:
    return {key: _plain(getattr(recipe, key)) for key in space}


def settings_of(recipe: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a trial, with dependent settings.

    A queue keeps the recipe's number of batches (in PT-BERT's code the current and four older batches), and CT's rates
    keep their ratios.
    """
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    if "batch_size" in settings and "queue_size" not in settings and getattr(recipe, "queue_size", None):
        settings["queue_size"] = round(recipe.queue_size / recipe.batch_size * settings["batch_size"])
    if "learning_rate" in settings and "rates" not in settings and getattr(recipe, "rates", None):
        factor = settings["learning_rate"] / recipe.learning_rate
        settings["rates"] = tuple(rate * factor for rate in recipe.rates)
    return settings


def typed_space(items: Sequence[str]) -> dict[str, object]:
    """Parse KEY=LOW..HIGH:log or KEY=[a, b]; raises UsageError."""
    space: dict[str, object] = {}
    for item in items:
        key, equals, given = (part.strip() for part in item.partition("="))
        if not equals or not given:
            raise UsageError(f"--space {item}: give KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=[a, b].")
        space[key] = parse_yaml(given, f"--space {key}") if given.startswith("[") else given
    return space
