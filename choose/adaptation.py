"""The findings of `adapt`, as a table and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.data.catalog import Dataset
from benchmark.data.sources import DataSource, Located
from benchmark.records.record import Record, plain, scores_of
from benchmark.report.terminal import folded
from benchmark.stats.contained import ONE_TRAINING, contained
from benchmark.stats.intervals import interval_text
from benchmark.stats.mcb import LEVEL, differences
from benchmark.stats.power import Noise, pairs_needed
from benchmark.tasks.base import DevOverlap, Lookup, Scores, Task, TaskData
from choose.candidates import CARD, vectors_of
from choose.data import MEASURES, UNITS, Texts, Values
from choose.measures import may_be_best, measure, sampled, score
from choose.shown import between, lines_of_rows, number, rows_of
from zoo import __version__
from zoo.encoder import Encoder, Run
from zoo.files import sha256_json

if TYPE_CHECKING:
    import pandas


NONE = "no training"


@dataclass(frozen=True)
class Adaptation:
    """Candidates with their gain at home and change elsewhere, the best on development first.

    `frame` has `development` and `score` x100, `gain` over no training with its 95 % interval (low, high) and p,
    `needed` (units of a test to show it, if p does not), `may_be_best` (familywise), `change` elsewhere with its
    interval, seconds of a training, parameters, and updates.
    """

    frame: pandas.DataFrame
    development: Texts
    test: Texts
    encoder: str
    notes: list[str]
    failed: dict[str, str]
    written: Path | None = None
    vectors: Callable[[str, int, Sequence[str]], Any] = field(default=lambda *_: None, repr=False)
    _temporary: TemporaryDirectory[str] | None = field(default=None, repr=False)

    @property
    def picked(self) -> str:
        return str(self.frame.index[0])

    @property
    def advice(self) -> str:
        """The candidate to train; "" if none is better on the test beyond noise."""
        first = self.frame.iloc[0]
        return self.picked if self.picked != NONE and first["gain"] > 0 and first["p"] < LEVEL else ""

    @property
    def verdict(self) -> str:
        first, unit = self.frame.iloc[0], UNITS[self.test.kind]
        on = f"{MEASURES[self.test.kind]} on {self.test.units:,} {unit} of the test"
        if len(self.frame) == 1:
            return "No advice: each method failed."
        if self.picked == NONE:
            return f"Do not train: on development none of {len(self.frame) - 1} candidates is above {self.encoder}."
        gain = f"{first['gain']:+z.1f} ({interval_text(first['gain_low'], first['gain_high'])})"
        if not self.advice:
            text = (
                f"Do not train: {self.picked}, the best on development, changes {on} by {gain}, which may be nothing."
            )
            if np.isnan(first["needed"]):
                return text
            return (
                f"{text} If the gain is real, a test of about {first['needed']:,.0f} {unit} would show it (power 80 %)."
            )
        sentences = [f"Train {self.advice}: {on} rises by {gain}, from {first['score'] - first['gain']:z.1f}."]
        others = self.frame.index[self.frame["may_be_best"] & ~self.frame.index.isin([self.advice, NONE])]
        sentences += [f"Tied with it: {', '.join(others)}."] if len(others) else []
        if np.isfinite(first["change"]):
            change = f"{first['change']:+z.1f} ({interval_text(first['change_low'], first['change_high'])})"
            if first["change_high"] < 0:
                sentences.append(f"It forgets: elsewhere it changes by {change}.")
            else:
                sentences.append(f"Elsewhere it changes by {change}.")
        return " ".join(sentences)

    @property
    def noise(self) -> str:
        """Which noise the intervals and marks contain."""
        seeds = int(self.frame["seeds"].max())
        return contained(UNITS[self.test.kind], seeds="" if seeds > 1 else ONE_TRAINING)

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "encoder": self.encoder,
            "measure": MEASURES[self.test.kind],
            "units": {"development": self.development.units, "test": self.test.units},
            "picked": self.picked,
            "advice": self.advice or None,
            "verdict": self.verdict,
            "rows": plain(self.frame.reset_index().to_dict("records")),
            "notes": self.notes,
            "noise": self.noise,
            "failed": self.failed,
            "written": None if self.written is None else str(self.written),
        }

    def shown(self, width: int | None = None) -> str:
        columns = [
            (f"{MEASURES[self.test.kind]} gain", between("gain")),
            ("elsewhere", between("change")),
            ("seconds", number("seconds", ",.0f")),
            ("parameters", number("parameters", ",.0f")),
            ("tie", lambda row: "≈" if row["may_be_best"] else ""),
            ("development", number("development")),
            ("test", number("score")),
            ("updates", number("updates", ",.0f")),
        ]
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        written = [f"Written: {self.written}"] if self.written else []
        about, after = folded(self.notes, width), folded([self.verdict, self.noise, *failed, *written], width)
        return "\n".join([*about, "", *lines_of_rows(rows_of(self.frame), columns, width), "", *after])

    def __str__(self) -> str:
        return self.shown()


def frame_of(records: dict[str, list[Record]], test: Texts, changes: dict[str, dict[str, float]]) -> pandas.DataFrame:
    import pandas

    names = list(records)
    values = [np.array([scores_of(record)["values"] for record in of_seeds]) for of_seeds in records.values()]  # type: ignore[typeddict-item]
    of_all = sampled(test, values)
    gaps, base = differences(of_all), names.index(NONE)
    best, rows = may_be_best(of_all), []
    for place, (name, of_seeds) in enumerate(records.items()):
        trained = [record["training"] for record in of_seeds if record["training"]]
        gap = float(gaps.value[place, base])
        noise = Noise(float(gaps.pairs_error[place, base]), 0.0, of_all.pairs_df)
        needed = max(pairs_needed(noise, test.units, gap), test.units + 1) if gap > 0 else np.nan
        gain = {"gain": gaps.value, "gain_low": gaps.low, "gain_high": gaps.high, "p": gaps.p}
        none = {"change": np.nan, "change_low": np.nan, "change_high": np.nan}
        rows.append(
            {
                "name": name,
                "development": float(np.mean([scores_of(seed)["development"] for seed in of_seeds])),  # type: ignore[typeddict-item]
                "score": of_all.value[place],
                **{key: of[place, base] if name != NONE else np.nan for key, of in gain.items()},
                "needed": needed if name != NONE and gaps.p[place, base] >= LEVEL else np.nan,
                "may_be_best": bool(best[place]),
                **(none | changes.get(name, {})),
                "seconds": float(np.mean([training["seconds"] for training in trained])) if trained else 0.0,
                "parameters": of_seeds[0]["facts"].get("parameters"),
                "updates": int(trained[0]["steps"]) if trained else 0,
                "seeds": len(of_seeds),
            }
        )
    # `NONE` is the first of equal ones.
    order = sorted(rows, key=lambda row: (-row["development"], row["name"] != NONE))
    return pandas.DataFrame(order).set_index("name")


HOME = "home"


class HomeScores(Scores, total=False):
    """The development score x100, and the value of each test unit."""

    development: float
    values: list[float]


class HomeData(TaskData):
    trains_encoder = True

    def __init__(self, development: Texts, test: Texts) -> None:
        self.development, self.test, self.rows = development, test, test.units
        content = [[part.texts, *(a.tolist() for a in (part.first, part.second, part.gold))] for part in self.parts]
        self.located = Located(Dataset(HOME, "own texts", "not stated"), "plain", "folder", {}, sha256_json(content))

    @property
    def parts(self) -> tuple[Texts, Texts]:
        return self.development, self.test

    def texts(self) -> list[str]:
        return [text for part in self.parts for text in part.texts]

    def tested(self) -> list[str]:
        return self.test.texts

    def score(self, vectors: Lookup) -> Scores:
        return self._scores(*(measure(part, vectors(part.texts))[0] for part in self.parts))

    def score_encoder(self, encoder: Encoder, vectors: Lookup, run: Run) -> Scores:
        """An encoder of queries and documents has the roles of its card."""
        if not self.test.queries:
            return self.score(vectors)
        return self._scores(*(measure(part, vectors_of(encoder, part, CARD))[0] for part in self.parts))

    def _scores(self, development: Values, test: Values) -> HomeScores:
        main = float(score(self.test, test[None])[0])
        return {
            "main": main,
            "main_metric": MEASURES[self.test.kind],
            "reason": None,
            "development": 100 * float(score(self.development, development[None])[0]),
            "values": np.asarray(test, np.float64).tolist(),
        }

    def score_dev(self, vectors: Lookup) -> float:
        values = measure(self.development, vectors(self.development.texts))[0]
        return 100 * float(score(self.development, values[None])[0])

    def dev_overlap(self) -> DevOverlap:
        return DevOverlap(self.development.units, 0)


@dataclass(frozen=True)
class HomeTask(Task):
    data: HomeData
    title: str = "Own texts"
    dataset: str = HOME
    metric: str = "that of the labels"
    version: int = 2

    def load(self, data: DataSource, limit: int | None = None) -> Any:
        return self.data
