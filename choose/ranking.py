"""The ranking of measured encoders, and its verdict in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.stats.contained import FINISHED, NOT_STATED, ONE_TRAINING, contained
from benchmark.stats.intervals import interval_text
from benchmark.stats.mcb import differences
from benchmark.stats.power import Noise, pairs_needed
from choose.data import MEASURES, UNITS, Texts, Values
from choose.demands import CONTROL, Floor
from choose.measures import intervals, may_be_best, sampled
from choose.own_texts import is_other_than_english

if TYPE_CHECKING:
    import pandas

# From this share of texts with a near-duplicate on, the verdict speaks of them.
_MANY = 0.1
# A smaller lead is printed as 0.0.
_SHOWN = 0.05


_REMEDIES = {
    "score": "--columns A,B,-SCORE where large values mean unlike.",
    "binary": "--columns A,B,LABEL=WORD with the word for alike.",
    "label": "--columns TEXT,LABEL.",
}


@dataclass(frozen=True)
class Ranking:
    """Encoders by their score, those over the budget last, and the facts of the verdict.

    `above_own` are the winner's other sizes, below it beyond noise; `beaten`: better than the baseline beyond noise.
    """

    frame: pandas.DataFrame
    winner: str | None
    tied: list[str]
    # Units that would tell the first two apart.
    needed: int | None
    above_own: list[str] = field(default_factory=list)
    baseline: str | None = None
    beaten: bool | None = None


def ranked(
    data: Texts, values: Sequence[Values], rows: Sequence[dict[str, Any]], baseline: str | None = None
) -> Ranking:
    """Rank rows by their score; `over_budget` keeps a row from winning."""
    import pandas

    rows = [{"over_budget": "", "one_training": False, **row} for row in rows]
    names = [row["name"] for row in rows]
    of_all = sampled(data, list(values))
    gaps, (low, high) = differences(of_all), intervals(data, of_all)
    within = np.array([not row["over_budget"] for row in rows])
    order = np.lexsort((-of_all.value, ~within))
    best = int(order[0])
    may_be = np.zeros(len(rows), np.bool_)
    # A mark contains the noise of seeds, which one training does not show.
    known = within & ~np.array([row["one_training"] for row in rows])
    if known.any():
        may_be[known] = may_be_best(sampled(data, [values[i] for i in np.flatnonzero(known).tolist()]))
    columns = {
        "score": of_all.value,
        "low": low,
        "high": high,
        "behind": gaps.value[best],
        "behind_low": gaps.low[best],
        "behind_high": gaps.high[best],
        "may_be_best": may_be,
    }
    frame = pandas.concat([pandas.DataFrame(columns), pandas.DataFrame(rows)], axis=1).iloc[order].set_index("name")
    needed = None
    if within.sum() > 1 and known[best] and may_be[order[1]] and (gap := float(gaps.value[best, order[1]])) >= _SHOWN:
        noise = Noise(float(gaps.pairs_error[best, order[1]]), 0.0, of_all.pairs_df)
        needed = max(pairs_needed(noise, data.units, gap), data.units + 1)
    of_winner = [i for i in range(len(rows)) if rows[i].get("encoder") == rows[best].get("encoder") and i != best]
    larger = [i for i in of_winner if rows[i]["bytes"] > rows[best]["bytes"] and gaps.low[best, i] > 0]
    beaten = None
    if baseline is not None:
        place = next(i for i, row in enumerate(rows) if baseline in (row["name"], row["encoder"]))
        compared = np.flatnonzero(within | (np.arange(len(rows)) == place)).tolist()
        marks = may_be_best(sampled(data, [values[i] for i in compared]))
        unknown = not known[best] or rows[place]["one_training"]
        beaten = bool(
            within.any()
            and not unknown
            and of_all.value[best] > of_all.value[place]
            and not marks[compared.index(place)]
        )
        baseline = names[place]
    winner = names[best] if within.any() else None
    tied = [str(name) for name in frame.index[frame["may_be_best"]] if name != winner and known[best]]
    return Ranking(frame, winner, tied, needed, [names[i] for i in larger], baseline, beaten)


def verdict(data: Texts, ranking: Ranking, floors: Sequence[Floor], failed: Sequence[str]) -> str:
    sentences = [
        *_doubts(data, ranking),
        *_first(data, ranking),
        *_trained_once(ranking),
        noise_of(data, ranking),
        *_budget(data, ranking),
        *_cautions(data, ranking, failed),
    ]
    if ranking.beaten is not None and ranking.winner != ranking.baseline:
        once = [name for name in (ranking.winner, ranking.baseline) if name in _once(ranking)]
        verb = "is" if ranking.beaten else "is not shown to be" if once else "is not"
        why = f": {' and '.join(map(str, once))} trained once" * bool(once)
        sentences.append(
            f"{ranking.winner or 'None'} {verb} better than the baseline {ranking.baseline} beyond noise{why}."
        )
    elif ranking.baseline is not None:
        sentences.append(f"Nothing is better than the baseline {ranking.baseline}.")
    for floor in floors:
        if ranking.winner is not None:
            reaches = "reaches" if reached(ranking, floor) else "does not reach"
            name, value = shown_name(floor.metric, data), _of_first(ranking, floor.metric)
            sentences.append(f"It {reaches} the floor {name} {floor.least:g}: {value:.1f}.")
    return " ".join(sentences)


def reached(ranking: Ranking, floor: Floor) -> bool:
    return ranking.winner is not None and _of_first(ranking, floor.metric) >= floor.least


def _of_first(ranking: Ranking, column: str) -> float:
    return float(ranking.frame[column].iloc[0])


def shown_name(column: str, data: Texts) -> str:
    return MEASURES[data.kind] if column == "score" else column.replace("_at_1", "@1").replace("_", " ")


def _first(data: Texts, ranking: Ranking) -> list[str]:
    frame, units = ranking.frame[ranking.frame["over_budget"] == ""], UNITS[data.kind]
    if ranking.winner is None:
        return [f"On these {data.units:,} {units} no encoder is within the budget."]
    first = frame.iloc[0]
    score = f"{MEASURES[data.kind]} {first['score']:.1f} (95 % {first['low']:.1f} to {first['high']:.1f})"
    text = f"On these {data.units:,} {units} {ranking.winner} is first: {score}"
    if len(frame) == 1:
        return [f"{text}; {'no other is within the budget' if len(ranking.frame) > 1 else 'name more to compare it'}."]
    second = frame.iloc[1]
    gap = f"{second['behind']:z.1f} ({interval_text(second['behind_low'], second['behind_high'])})"
    sentences = [f"{text}, {gap} above {second.name}."]
    if not ranking.tied:
        return sentences if _once(ranking) else [*sentences, "No other is tied with it."]
    sentences.append(f"Tied with it: {', '.join(ranking.tied)}.")
    rivals = frame[frame["may_be_best"]]
    if rivals["texts_per_second"].nunique() > 1:
        sentences.append(f"The fastest of them is {rivals['texts_per_second'].idxmax()}.")
    elif rivals["bytes"].nunique() > 1:
        sentences.append(f"The smallest of them is {rivals['bytes'].idxmin()}.")
    if second["behind"] < _SHOWN:
        sentences.append(f"{ranking.winner} and {second.name} have the same score here, to 0.1.")
    elif ranking.needed is not None:
        sentences.append(
            f"If its lead over {second.name} is real, about {ranking.needed:,} such {units} would show it (power 80 %)."
        )
    return sentences


def _once(ranking: Ranking) -> list[str]:
    """Return the rows that were trained once."""
    return [str(name) for name, row in ranking.frame.iterrows() if row["one_training"]]


def _trained_once(ranking: Ranking) -> list[str]:
    if not (once := _once(ranking)):
        return []
    methods = ",".join(dict.fromkeys(map(str, ranking.frame.loc[once, "encoder"])))
    command = f"`zoo-bench run --methods {shlex.quote(methods)} --seeds 3`"
    return [f"{', '.join(once)}: trained once, so without a mark; {command} shows the noise of seeds on its tasks."]


def noise_of(data: Texts, ranking: Ranking) -> str:
    """Return which noise the intervals and marks contain."""
    once = _once(ranking)
    why = ONE_TRAINING if len(once) == len(ranking.frame) else f"one training of {', '.join(once)}"
    return contained(UNITS[data.kind], seeds=why if once else FINISHED, tuning=NOT_STATED)


def _doubts(data: Texts, ranking: Ranking) -> list[str]:
    sentences, chance, remedy = [], {"score": 0.0, "binary": 50.0}.get(data.kind, 0.0), _REMEDIES.get(data.kind, "")
    if data.kind == "label":
        count = np.unique(data.gold, return_counts=True)[1]
        chance = 100 * float((count * (count - 1)).sum()) / (data.units * (data.units - 1))
        if count.max() == 1:
            sentences.append("No two texts share a label, so that no neighbour is right; name classes: " + remedy)
        elif alone := int((count == 1).sum()):
            sentences.append(
                f"{alone:,} of {data.units:,} texts are alone in their class and count as wrong; leave them out."
            )
    if ranking.winner is not None and _of_first(ranking, "high") < chance:
        what = f"{ranking.winner} is below chance ({chance:.1f}) by more than its interval"
        sentences.append(f"{what}; if the table was misread, say so: {remedy}")
    return sentences


def _budget(data: Texts, ranking: Ranking) -> list[str]:
    over = ranking.frame[ranking.frame["over_budget"] != ""].drop_duplicates("encoder")
    if over.empty:
        return []
    named = [f"{name} ({row['score']:.1f}; {row['over_budget']})" for name, row in over.iterrows()]
    return [f"Over the budget, so that it cannot win: {', '.join(named)}."]


def _cautions(data: Texts, ranking: Ranking, failed: Sequence[str]) -> list[str]:
    frame, sentences = ranking.frame, []
    if ranking.above_own:
        sentences.append(
            f"{ranking.winner} is above its own larger vectors ({', '.join(ranking.above_own)}) by more than noise."
            " That comes from the ranges of these texts, which weigh all dimensions alike, not from fewer bytes."
        )
    if CONTROL in (ranking.winner, *ranking.tied):
        sentences.append("BM25 only counts common words: on these texts no encoder is better beyond noise.")
    encoders = frame[frame.index != CONTROL]
    if not encoders["finished"].any():
        why = f" ({', '.join(failed)} failed)" if failed else ""
        sentences.append(f"No finished encoder took part{why}: name one as --encoders OWNER/NAME or ./FOLDER.")
    if not encoders["finished"].all() and is_other_than_english(data.texts):
        sentences.append("The texts are not in English, for which the recipes of zoo-bench are made.")
    if ranking.winner is not None and data.kind == "label":
        near, without = _of_first(ranking, "near_duplicates"), _of_first(ranking, "accuracy_without_them")
        if near >= _MANY * data.units:
            rest = f"; without these texts it is {without:.1f}" if np.isfinite(without) else ""
            sentences.append(
                f"{near:,.0f} of {data.units:,} texts have a near-duplicate among their neighbours"
                f" (four fifths of their words are common), which lends its label{rest}."
            )
    return sentences
