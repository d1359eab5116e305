"""Runs tasks of mteb: `--tasks mteb:STSBenchmark`. mteb names and reads the data sets.

STS tasks have the score of all pairs of this project: Spearman of the cosine, also mteb's main score. Other kinds are
scored by mteb's own evaluators, from vectors encoded once.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Lookup, PairsData, Scores, Task, TaskData
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.extras import optional
from zoo.files import sha256_json
from zoo.roles import Roles, RoleText

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.types import PromptType

_BY_MTEB = ("Classification", "Clustering", "PairClassification", "Reranking", "Retrieval", "Summarization")
_TEXT_COLUMNS = (
    "input_column_name",
    "input1_column_name",
    "input2_column_name",
    "human_summaries_column_name",
    "machine_summaries_column_name",
)


def mteb_task(name: str) -> MTEBTask:
    """Return a task with unread data; raises MissingError without mteb, UsageError if unsupported."""
    mteb_name = name.partition(":")[2]
    mteb = optional("mteb", "mteb", f"the task {name}")
    try:
        with _random_kept():
            task = mteb.get_task(mteb_name, languages=["eng"], exclusive_language_filter=True)
    except KeyError as error:
        reason = str(error.args[0]).removeprefix("KeyError: ")
        raise UsageError(f"mteb has no task {mteb_name!r}: {reason} `mteb available-tasks` lists them.") from error
    kind = str(task.metadata.type)
    if (kind != "STS" and kind not in _BY_MTEB) or list(task.metadata.modalities) != ["text"] or task.is_aggregate:
        raise UsageError(f"{name} is {kind}; of mteb's tasks on text this runs STS, {', '.join(_BY_MTEB)}.")
    if not task.hf_subsets:
        raise UsageError(f"{name} has no part that is English alone.")
    return MTEBTask(name, task)


def _random_kept() -> AbstractContextManager[None]:
    """Restore the random states, because mteb seeds every generator."""
    from zoo.training.checkpoint import undisturbed

    return undisturbed()


@dataclass(frozen=True)
class MTEBTask(Task):
    name: str
    task: AbsTask
    scored_by: ClassVar[str | None] = "mteb"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.task.metadata.name}, as mteb reads it"

    @property
    def dataset(self) -> str:  # type: ignore[override]
        return str(self.task.metadata.dataset["path"])

    @property
    def metric(self) -> str:  # type: ignore[override]
        return Task.metric if self.task.metadata.type == "STS" else f"mteb's {self.task.metadata.main_score}"

    @property
    def version(self) -> int:  # type: ignore[override]
        """2, since roles, prompts and similarity follow mteb."""
        return 2

    @property
    def split(self) -> str:
        """The test split, or mteb's last without it."""
        splits = list(self.task.eval_splits)
        return "test" if "test" in splits else str(splits[-1])

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Let mteb read the data; raises MissingError if they are neither cached nor on the hub."""
        self._read()
        if self.task.metadata.type != "STS":
            if limit is not None:
                raise UsageError(f"{self.name} is scored by mteb, whole; leave --limit out.")
            return ByMTEB(self._located({subset: _plain(self._rows(subset)) for subset in self.task.hf_subsets}), self)
        task: Any = self.task
        first, second = task.column_names
        sides = {first: task.input1_prompt_type, second: task.input2_prompt_type}
        subsets = {}
        for subset in self.task.hf_subsets:
            rows = self._rows(subset)
            missing = {first, second, "score"} - set(rows.column_names)
            if missing:
                raise CorruptError(f"{self.name}: its data has no column {min(missing)}.")
            gold = np.array(rows["score"], dtype=np.float64)
            texts = [self.in_role(rows[name], asked) for name, asked in sides.items()]
            subsets[subset] = Pairs(texts[0], texts[1], gold)
        content = {name: [pairs.first, pairs.second, pairs.gold.tolist()] for name, pairs in subsets.items()}
        return PairsData(self._located(content), subsets, limit=limit)

    def in_role(self, texts: Iterable[str], asked: PromptType | None = None) -> list[str]:
        from benchmark.tasks.mteb_model import prompt_names, role_of

        names = prompt_names(self.task.metadata, asked)
        return [RoleText(text, role_of(asked), None, names) for text in texts]

    def _read(self) -> None:
        if self.task.data_loaded:
            return
        place, revision = self.dataset, self.task.metadata.dataset.get("revision")
        try:
            with _random_kept():
                if os.environ.get("HF_HUB_OFFLINE", "").upper() not in ("1", "TRUE", "YES", "ON"):
                    from huggingface_hub import HfApi

                    # The hub is asked first, because the download itself retries for long if it cannot be reached.
                    HfApi().dataset_info(place, revision=revision, timeout=5)
                self.task.load_data()
                # Older retrieval tasks have a form of their own.
                if hasattr(self.task, "convert_v1_dataset_format_to_v2"):
                    self.task.convert_v1_dataset_format_to_v2(num_proc=None)
        except Exception as error:
            # The hub's clients raise many types; each means that the data is not available now.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise MissingError(
                f"{self.name}: its data set {place} cannot be had from the hub: {reason}. Run it where there is a"
                " network; with HF_HUB_OFFLINE=1 a copy in the cache of `datasets` is read."
            ) from error

    def _rows(self, subset: str) -> Any:
        held: Any = self.task.dataset
        return held[subset][self.split] if subset in held else held[self.split]

    def _located(self, content: Any) -> Located:
        meta = self.task.metadata
        entry = Dataset(self.dataset, meta.name, str(meta.license or "not specified"))
        sha256 = sha256_json({"split": self.split, "rows": content})
        return Located(entry, self.form, "hub", {}, sha256, True, meta.dataset.get("revision"))


class ByMTEB(TaskData):
    def __init__(self, located: Located, task: MTEBTask) -> None:
        self.located, self.task = located, task
        held = [task._rows(subset) for subset in task.task.hf_subsets]
        self.rows = sum(len(rows["queries"] if isinstance(rows, Mapping) else rows) for rows in held)

    def texts(self) -> list[str]:
        """Return texts in their roles; training texts of classifiers are encoded on demand."""
        from mteb.types import PromptType

        task: Any = self.task.task
        columns = {getattr(task, name): name for name in _TEXT_COLUMNS if hasattr(task, name)}
        texts: list[str] = []
        for subset in task.hf_subsets:
            rows = self.task._rows(subset)
            # Queries or documents of retrieval or reranking, with or without a title.
            if isinstance(rows, Mapping):
                texts += self.task.in_role(_strings(list(rows["queries"]["text"])), PromptType.query)
                documents = rows["corpus"]
                titles = documents["title"] if "title" in documents.column_names else [""] * len(documents)
                both = zip(titles, documents["text"], strict=True)
                together = (f"{title} {text}".strip() if title else text.strip() for title, text in both)
                texts += self.task.in_role(together, PromptType.document)
            else:
                for column, name in columns.items():
                    asked = getattr(task, name.replace("column_name", "prompt_type"), None)
                    texts += self.task.in_role(_strings(list(rows[column])), asked)
        return texts

    def unlabelled(self) -> list[str]:
        return list(map(str, self.texts()))

    def score(self, vectors: Lookup) -> Scores:
        """Return mteb's scores; `main` is their mean over subsets."""
        from benchmark.tasks.mteb_model import TextModel

        model = TextModel(vectors, getattr(getattr(vectors, "encoder", None), "roles", Roles()))
        with _random_kept():
            scores_of_subset = self.task.task.evaluate(
                model, self.task.split, encode_kwargs={"batch_size": 1024, "show_progress_bar": False}
            )
        mains = [float(scores["main_score"]) for scores in scores_of_subset.values()]
        subsets = {
            name: {k: float(v) for k, v in scores.items() if isinstance(v, float | np.floating) and math.isfinite(v)}
            for name, scores in scores_of_subset.items()
        }
        return {
            "main": float(np.mean(mains)),
            "main_metric": self.task.task.metadata.main_score,
            "reason": None,
            "mteb": subsets,
            "split": self.task.split,
            "mteb_version": importlib.metadata.version("mteb"),
        }


def _plain(rows: Any) -> Any:
    if isinstance(rows, Mapping):
        return {name: _plain(part) for name, part in sorted(rows.items()) if part is not None}
    return rows.to_dict() if hasattr(rows, "to_dict") else rows


def _strings(cells: Sequence[Any]) -> Iterator[str]:
    for cell in cells:
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, list):
            yield from _strings(cell)
