"""Ranks encoders on a user's own texts, and says which is the best, by how much, and which may be as good."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmark.choosing.data import MEASURES, UNITS, Kind, Texts, Values, read_texts
from benchmark.choosing.measures import intervals, may_be_best, measure, sampled
from benchmark.data.corpora import load_corpus
from benchmark.data.sources import DataSource
from benchmark.records.record import plain
from benchmark.run.objects import listed, methods_of
from benchmark.stats.mcb import Noise, differences, pairs_needed
from zoo.api import load
from zoo.encoder import Encoder, Run, Runtime
from zoo.errors import MissingError, UsageError, ZooError, said
from zoo.files import atomic_path
from zoo.machine import make_runtime
from zoo.progress import Progress

if TYPE_CHECKING:
    import pandas


FORMATS = ("float32", "int8", "binary")


def variants(
    vectors: NDArray[Any], dims: Sequence[int] = (), formats: Sequence[str] = ("float32",)
) -> Iterator[tuple[int, str, int, NDArray[np.float32]]]:
    """Yield (width, number format, bytes per text, vectors) for each width and number format of vectors (n, dim).

    Without `dims` the width is the vectors' own; wider ones are left out. int8 and binary are sentence-transformers'
    quantisation of vectors of length 1: the ranges of int8 are those of these vectors. A bit counts as -1 or 1, so that
    cosines have the order of Hamming distances. Raises UsageError for an unknown format or where no width fits,
    ZooError for vectors that are not finite.
    """
    from sentence_transformers.util.quantization import quantize_embeddings

    if unknown := set(formats) - {*FORMATS}:
        raise UsageError(f"--bytes {min(unknown)} is none of {', '.join(FORMATS)}.")
    if not np.isfinite(vectors).all():
        raise ZooError("some of its vectors are not finite.")
    dimensions = vectors.shape[1]
    if not (widths := [width for width in dims or [dimensions] if 0 < width <= dimensions]):
        raise UsageError(f"its vectors have {dimensions} dimensions, and --dims names none up to that.")
    for width in widths:
        cut = np.ascontiguousarray(vectors[:, :width], np.float32)
        unit = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-12)
        for form in formats:
            if form == "float32":
                yield width, form, 4 * width, cut
            elif form == "int8":
                ranges = np.stack([unit.min(axis=0), unit.max(axis=0)])  # as it takes by itself, with a warning
                yield width, form, width, np.asarray(quantize_embeddings(unit, "int8", ranges=ranges), np.float32)
            else:
                packed = np.asarray(quantize_embeddings(unit, precision="ubinary"))
                signs = 2 * np.unpackbits(packed, axis=1, count=width).astype(np.float32) - 1
                yield width, form, packed.shape[1], signs


UNTRAINED = ("static-freq-sub-case-pun", "avg-last", "bag-of-words")  # candidates without download or training


@dataclass(frozen=True)
class Choice:
    """The ranked encoders, the best first; those that failed with the reason; and the verdict in words.

    `frame` has a row per encoder: its score x100 with its 95 % interval (low, high), what it is behind the best with
    an interval, `may be best` (familywise), further measures of the kind, and what it costs.
    """

    data: Texts
    frame: pandas.DataFrame
    failed: dict[str, str]
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        about = {"table": self.data.report, "kind": self.data.kind, "measure": MEASURES[self.data.kind]}
        rows = plain(self.frame.reset_index().to_dict("records"))
        return {**about, "units": self.data.units, "rows": rows, "failed": self.failed, "verdict": self.verdict}

    def __str__(self) -> str:
        shown = self.frame.rename(columns={"score": MEASURES[self.data.kind]})
        sized: dict[Any, Any] = dict.fromkeys(("texts/s", "dims", "bytes", "weights MB"), "{:,.0f}".format)
        sized |= {name: "{:.3f}".format for name in shown if "threshold" in str(name)}
        notes = [f"{name}: {text}" for name, row in self.frame.iterrows() if (text := _note(row, len(self.data.texts)))]
        shown = shown.drop(columns=[*_NOTED])
        table = shown.to_string(float_format="{:.1f}".format, formatters=sized, index_names=False, na_rep="–")
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        return "\n".join([self.data.report, "", table, "", *notes, self.verdict, *failed])


_NOTED = ("roles", "cut")  # columns of the frame that stand below the printed table, where they say something


def _note(row: pandas.Series[Any], texts: int) -> str:
    """Return what an encoder put before texts, its similarity, and how many texts were longer than it reads."""
    cut = f"{row['cut']:,.0f} of {texts:,} texts cut" if row["cut"] and row["cut"] == row["cut"] else ""
    return "; ".join(filter(None, (row["roles"], cut)))


def _vectors(encoder: Encoder, data: Texts) -> NDArray[Any]:
    """Return the vectors of all texts (texts, dim): of queries and documents in their roles, of others without one."""
    if not data.queries:
        return np.asarray(encoder.encode(data.texts))
    asked, answers = data.texts[: data.queries], data.texts[data.queries :]
    return np.concatenate([encoder.encode_query(asked), encoder.encode_document(answers)])


def choose(
    pairs: object,
    encoders: object = None,
    *,
    columns: str | None = None,
    kind: Kind | None = None,
    dims: Sequence[int] = (),
    formats: Sequence[str] = ("float32",),
    device: str = "auto",
    precision: str = "auto",
    quiet: bool = False,
) -> Choice:
    """Rank encoders on a table of your own, and name the best, its lead, and those that may be as good.

    The table is a file (csv, tsv, jsonl, parquet, Excel), a folder of BEIR or of `Dataset.save_to_disk`, a DataFrame or
    a Dataset. It has two texts and a score, two texts and two labels, a query and a document (and a grade), or a text
    and a label; `columns` and `kind` are orders. `encoders` are what `evaluate` takes, one or several, by default those
    in the hub's cache and a few that need no training; a recipe that learns from plain text is trained on the bundled
    text. A finished encoder has the roles of its card. `dims` and `formats` are those of `variants`.

    Raises UsageError or CorruptError for a table that cannot be used, and ZooError where every encoder fails.
    """
    data = read_texts(pairs, columns, kind)
    runtime = replace(make_runtime(device, precision), progress=Progress.silent() if quiet else Progress())
    rows: list[dict[str, Any]] = []
    values: list[Values] = []
    failed: dict[str, str] = {}
    for called, given in _candidates(encoders):
        name = called or (str(given) if isinstance(given, str | Path) else type(given).__name__)
        runtime.progress.say(f"{name} ...")
        try:
            encoder = _made(called, given, runtime, data.texts)
            encoder.encode(data.texts[:8])  # the first call is slower
            before = encoder.encoding_stats().get("truncated")
            started = time.perf_counter()
            vectors = _vectors(encoder, data)
            rate = len(data.texts) / max(time.perf_counter() - started, 1e-9)
            cut = None if before is None else encoder.encoding_stats()["truncated"] - before
            used = encoder.roles if data.queries else replace(encoder.roles, prompts={})
            cost: dict[str, Any] = {"texts/s": rate, "weights MB": encoder.parameters() * 4 / 2**20 or np.nan}
            cost |= {"roles": str(used), "cut": cut}
            measured = [(*one, *measure(data, one[-1], used.similarity)) for one in variants(vectors, dims, formats)]
        except Exception as error:  # of any encoder's code: the others are ranked without it
            failed[name] = str(error) if isinstance(error, ZooError) else said(error)
        else:
            for width, form, size, _, of_units, more in measured:
                suffix = (f" dims={width}" if dims else "") + ("" if form == "float32" else f" {form}")
                rows.append({"name": name + suffix, **more, **cost, "dims": width, "bytes": size})
                values.append(of_units)
    if not rows:
        raise ZooError(f"no encoder could be measured: {'; '.join(f'{name}: {why}' for name, why in failed.items())}")
    frame, needed = ranked(data, values, rows)
    return Choice(data, frame, failed, _verdict(data, frame, needed))


def ranked(
    data: Texts, values: Sequence[Values], rows: Sequence[dict[str, Any]]
) -> tuple[pandas.DataFrame, int | None]:
    """Return the frame of a `Choice`, and how many units would tell its first two apart (None: they are, or equal)."""
    import pandas

    of_all = sampled(data, list(values))
    gaps, may_be = differences(of_all), may_be_best(of_all)
    order = np.argsort(-of_all.value, kind="stable")
    best = order[0]
    low, high = intervals(of_all)
    ranked = {
        "score": of_all.value,
        "low": low,
        "high": high,
        "behind": gaps.value[best],
        "behind low": gaps.low[best],
    }
    ranked |= {"behind high": gaps.high[best], "may be best": may_be}
    frame = pandas.concat([pandas.DataFrame(ranked), pandas.DataFrame(rows)], axis=1).iloc[order].set_index("name")
    needed = None
    if len(order) > 1 and may_be[order[1]] and (gap := float(gaps.value[best, order[1]])) > 0:
        noise = Noise(float(gaps.pairs_error[best, order[1]]), 0.0, of_all.pairs_df)
        needed = max(pairs_needed(noise, data.units, gap), data.units + 1)
    return frame, needed


def _verdict(data: Texts, frame: pandas.DataFrame, needed: int | None) -> str:
    first, units = frame.iloc[0], UNITS[data.kind]
    score = f"{MEASURES[data.kind]} {first['score']:.1f} (95 % {first['low']:.1f} to {first['high']:.1f})"
    text = f"On these {data.units:,} {units} {first.name} is first: {score}"
    if len(frame) == 1:
        return f"{text}; name more encoders to compare it."
    second = frame.iloc[1]
    gap = f"{second['behind']:.1f} ({second['behind low']:.1f} to {second['behind high']:.1f})"
    text = f"{text}, {gap} above {second.name}."
    rivals = frame[frame["may be best"]]
    if len(rivals) == 1:
        return f"{text} It is told apart from all others."
    text += f" Not told apart from it: {', '.join(rivals.index[1:])}."
    if rivals["texts/s"].nunique() > 1:
        text += f" The fastest of them is {rivals['texts/s'].idxmax()}."
    else:  # sizes of one encoder
        text += f" The smallest of them is {rivals['bytes'].idxmin()}."
    if needed is not None:
        text += f" If its lead over {second.name} is real, about {needed:,} such {units} would show it (power 80 %)."
    return text


def drawn(choice: Choice, path: Path) -> None:
    """Draw each row's score with its interval against its speed into a PNG file; dark: it may be the best.

    Raises MissingError without Matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingError("--plot needs Matplotlib: pip install 'zoo-bench[plots]'.") from error
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="texts per second", ylabel=MEASURES[choice.data.kind])
    for name, row in choice.frame.iterrows():
        colour = "#1f4e79" if row["may be best"] else "#a0a0a0"
        sides = [[row["score"] - row["low"]], [row["high"] - row["score"]]]
        axes.errorbar(row["texts/s"], row["score"], sides, fmt="o", color=colour)
        place = (row["texts/s"], row["score"])
        axes.annotate(str(name), place, (6, 5), textcoords="offset points", fontsize=8, parse_math=False)
    axes.margins(x=0.3)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def installed() -> list[str]:
    """Return the sentence-transformers models in the hub's cache."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        models = [repo for repo in scan_cache_dir().repos if repo.repo_type == "model"]
    except CacheNotFound:
        return []
    return sorted(m.repo_id for m in models if any(f.file_name == "modules.json" for r in m.revisions for f in r.files))


def _candidates(encoders: object) -> Iterator[tuple[str | None, object]]:
    given: object = [*installed(), *UNTRAINED] if encoders is None else encoders
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    yield from listed(given, None)


def _made(called: str | None, given: object, runtime: Runtime, texts: Sequence[str]) -> Encoder:
    """Return an encoder ready to encode: loaded, or trained on the bundled text, or fitted to `texts`."""
    quiet = replace(runtime, progress=Progress.silent())
    if isinstance(given, str | Path) and any((Path(given) / file).is_file() for file in ("fit.json", "recipe.json")):
        return load(given, quiet)
    methods = methods_of([(called, given)], {}, quiet, texts[:64], version=None, precision=None)
    method = methods[0]
    if len(methods) > 1 or method.traits.needs_pairs:
        raise UsageError("it names several recipes, or one that learns from labelled pairs; name a trained folder.")
    encoder = method.encoder(quiet)
    if method.traits.needs_corpus:
        corpus = load_corpus("pocket-text", DataSource.from_options(None), None)
        runtime.progress.say(f"{method.name} is trained on {len(corpus.sentences):,} sentences of the bundled text")
        encoder.fit(method.cls.reads(method.recipe, corpus), run=Run())
    return encoder.adapt(texts) if method.traits.transductive else encoder
