"""Gates: results of untrained rows on a backbone that claims presuppose there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmark.report.published import published
from zoo_bench_papers.claim_rows import Condition, Folder
from zoo_bench_papers.comparisons import Compared, Place
from zoo_bench_papers.properties import Measured

# Trained templates say something where an untrained one is not below the untrained average (PromptBERT, table 5).
_PROMPTS, _AVERAGE = ("prompt-repo", "prompt"), "avg-last"
_SUITE, _THEIRS = "sts", "bert-base-uncased"
# Of the mean cosine that the papers' backbone has: our own line.
_SHARE = 0.5


@dataclass(frozen=True)
class Gate:
    """Meaning of claims here: `closed` is why there is none, `lacks` the missing measurement, by `command`.

    `figures` are those of an open gate. A closed gate has them in its reason.
    """

    closed: str = ""
    lacks: str = ""
    command: str = ""
    figures: str = ""

    def before(self, contrast: Compared) -> Compared:
        """A contrast that decides nothing behind a closed or unmeasured gate."""
        if self.closed:
            return replace(contrast, untestable=self.closed)
        return replace(contrast, reason=self.lacks) if self.lacks and contrast.decides else contrast


def prompts(folder: Folder, at: Condition, command: Callable[..., str]) -> Gate:
    """Gate of trained templates: an untrained template is not below the untrained average, beyond noise."""
    pairs = [(name, _AVERAGE) for name in _PROMPTS]
    place = Place(folder, _SUITE, pairs, at)
    known = [name for name, average in pairs if {name, average} <= place.index.keys()]
    for name in known:
        if place.differences.high[place.index[name], place.index[_AVERAGE]] < 0:
            figures = f"{name} {place.values[name]:.2f}, {_AVERAGE} {place.values[_AVERAGE]:.2f} on {_SUITE}"
            return Gate(closed=f"an untrained template is below the untrained average here: {figures}")
    if known:
        return Gate()
    lacks = f"gate not measured: needs rows {' or '.join(_PROMPTS)}, and {_AVERAGE}, on {_SUITE}"
    return Gate(lacks=lacks, command=command(True, [_SUITE], [_PROMPTS[0], _AVERAGE]))


def anisotropy(folder: Folder, at: Condition, results: str) -> Gate:
    """Gate of flow and whitening: the untrained average's vectors point into one direction, as BERT's do."""
    cells = Measured(folder.tables, at.backbone).cells("anisotropy", Method=_AVERAGE)
    if not cells:
        command = f"zoo-bench analyze anisotropy --methods {_AVERAGE} --backbone {at.backbone} --out {results}/analyses"
        return Gate(lacks=f"gate not measured: needs the mean cosine of {_AVERAGE}", command=command)
    here, (theirs, source) = cells[0]["Sentence anisotropy"], _of_paper()
    figures = f"mean cosine of {_AVERAGE} {here:.2f}, of {_THEIRS} {theirs:.2f} ({source})"
    if here < _SHARE * theirs:
        return Gate(closed=f"the untrained average is nearly isotropic here: {figures}")
    return Gate(figures=figures)


def _of_paper() -> tuple[float, str]:
    """Mean cosine of the untrained average on the papers' backbone, and its source."""
    ((value, source),) = (
        (value, line.table.source())
        for line in published().lines
        if (line.row.metric, line.row.backbone, line.row.recipes) == ("sentence_anisotropy", _THEIRS, (_AVERAGE,))
        for value in line.scores.values()
    )
    return value, source
