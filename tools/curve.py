"""The learning curve of docs/findings.md from its records: `python -m tools.curve` prints it as Markdown.

A gap is a method's average over STS less SimCSE's. Its slope per doubling of the text is the least-squares line through
the gaps of all sizes: a weighted sum of the rows' averages. So its interval has the noise of pairs, drawn together for
all rows, and of the seeds of each row. It has not the noise of tuning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.conditions import tuned
from benchmark.report.markdown import markdown_row
from benchmark.report.table import read_completed
from benchmark.stats.draws import compared, finished
from benchmark.stats.mcb import LEVEL, Sample, differences
from benchmark.tasks.suites import suite

ROOT = Path(__file__).parents[1]
BASE = "simcse"
METHODS = {"ptbert-repo": "PT-BERT's code", "promptbert-repo": "PromptBERT's code"}
SIZES = (2_500, 5_000, 10_000, 20_000, 40_000)
# The rows of this size are in the folder of tuned rows, without a number in their names.
_TUNED_ON = 20_000


@dataclass(frozen=True)
class Curve:
    """Rows (method, size) with their records on STS-B, and the sample of them all, whose pairs are drawn together."""

    records: Mapping[tuple[str, int], Sequence[Record]]
    sample: Sample

    def gap(self, method: str, size: int) -> tuple[float, float, float]:
        """Return a gap with its interval."""
        names, gaps = list(self.records), differences(self.sample)
        at = names.index((method, size)), names.index((BASE, size))
        return gaps.value[at], gaps.low[at], gaps.high[at]

    def average(self, method: str, size: int) -> float:
        """Return a row's average over STS."""
        return float(self.sample.value[list(self.records).index((method, size))])

    def slope(self, method: str) -> tuple[float, float, float]:
        """Return by how much a gap rises per doubling of the text, with its 95% interval."""
        doublings = np.log2(SIZES)
        of_size = dict(
            zip(SIZES, (doublings - doublings.mean()) / ((doublings - doublings.mean()) ** 2).sum(), strict=True)
        )
        weights = np.array([((of == method) - (of == BASE)) * of_size[size] for of, size in self.records])
        value, sample = float(weights @ self.sample.value), self.sample
        parts = np.where(weights == 0, 0.0, weights**2 * sample.seed_variance)
        of_seeds, squares = parts.sum(), (parts[parts > 0] ** 2 / sample.seed_df[parts > 0]).sum()
        # The weights sum to 0, so that the variances of differences give that of the slope.
        of_pairs = max(0.0, -float(weights @ sample.between @ weights) / 2)
        quantile = [float(stdtrit(df, 1 - LEVEL / 2)) for df in (sample.pairs_df, of_seeds**2 / squares)]
        # The quantile is the mean of the pairs' and the seeds', weighted by their variances (Cochran 1964).
        half = (of_pairs * quantile[0] + of_seeds * quantile[1]) / (of_pairs + of_seeds) * np.sqrt(of_pairs + of_seeds)
        return value, value - half, value + half


def read() -> Curve:
    """Read the rows of both folders."""
    tasks = suite("sts").tasks
    rows: dict[tuple[str, int], dict[str, list[Record]]] = {}
    stores = []
    for folder in ("zoo-small-curve", "zoo-small-tuned"):
        store = Records(ROOT / "leaderboards" / folder)
        every: dict[str, list[Record]] = {}
        for record in read_completed(store):
            every.setdefault(record["method"]["name"], []).append(record)
        names = {f"{method}-tuned{_suffix(size)}": (method, size) for method in (BASE, *METHODS) for size in SIZES}
        here = {key: finished(every[name], tasks) for name, key in names.items() if name in every}
        rows |= here
        stores += [store] * len(here)
    kept, sample, _ = compared(list(rows.values()), stores, tasks)
    if sample is None or len(kept) != len(rows):
        raise ValueError("rows of the curve cannot be compared.")
    return Curve({key: of["STS-B"] for key, of in rows.items()}, sample)


def _suffix(size: int) -> str:
    return "" if size == _TUNED_ON else f"-{size}"


def interval(value: float, low: float, high: float) -> str:
    """Return "+1.07 (+0.79 to +1.35)"."""
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def averages(curve: Curve) -> str:
    """Return the table of averages and gaps."""
    lines = [["Sentences", "SimCSE", *(cell for name in METHODS.values() for cell in (name, "Less SimCSE"))]]
    lines.append(["--:"] * len(lines[0]))
    for size in SIZES:
        cells = [f"{size:,}", f"{curve.average(BASE, size):.2f}"]
        for method in METHODS:
            cells += [f"{curve.average(method, size):.2f}", interval(*curve.gap(method, size))]
        lines.append(cells)
    return "\n".join(map(markdown_row, lines))


def slopes(curve: Curve) -> str:
    """Return a line for each method: the slope of its gap, and whether the gap shrinks."""
    lines = []
    for method, name in METHODS.items():
        value, low, high = curve.slope(method)
        word = "shrinks" if low > 0 else "grows" if high < 0 else "does not change for certain"
        lines.append(
            f"- {name}: the difference changes by {interval(value, low, high)} per doubling of the text. It {word}."
        )
    return "\n".join(lines)


def settings(curve: Curve) -> str:
    """Return the table of what was tuned, and of the evaluations among which a checkpoint was picked."""
    lines = [["Row", "Tuned on", "Learning rate", "Temperature", "Batch", *(f"Looks, {size:,}" for size in SIZES)]]
    lines.append([":--", ":--", *["--:"] * (len(lines[0]) - 2)])
    for method in (BASE, *METHODS):
        of = [curve.records[method, size] for size in SIZES]
        recipe = of[0][0]["method"]["recipe"]
        looks = [str(max(len((one["training"] or {}).get("dev_scores") or {}) for one in part)) for part in of]
        cells = [f"{recipe[key]:.3g}" for key in ("learning_rate", "temperature", "batch_size")]
        lines.append([METHODS.get(method, "SimCSE"), tuned(of[0][0]["method"]), *cells, *looks])
    picked = {(one["training"] or {}).get("dev_task") or "nothing" for part in curve.records.values() for one in part}
    return "\n".join(map(markdown_row, lines)) + f"\n\nCheckpoints are picked by {', '.join(sorted(picked))}."


if __name__ == "__main__":
    curves = read()
    print("\n\n".join(part(curves) for part in (averages, slopes, settings)))
