"""Biases of static token embeddings by a token's frequency, subword form and case.

PromptBERT section 3: table 2 (mean cosine of two token embeddings) and figure 1 (two principal components, coloured by
frequency and by subword and case; with the MLM head's rows, figure 2). Norms and neighbour distances by frequency rank
follow table 1 of BERT-flow (Li et al. 2020).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.correlation import correlations
from benchmark.metrics.geometry import anisotropy
from zoo.encoder import Corpus, Runtime
from zoo.engine.tokens import tokenise
from zoo.errors import UsageError
from zoo.methods.static import Static, StaticRecipe
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Points, Scatter

# BERT-flow's bands by frequency rank; then the rest.
BANDS = {"1-100": 100, "101-500": 500, "501-5000": 5000}
REST, UNSEEN = "5001-", "unseen"
WORD, CAPITAL, SUBWORD = "word", "capital", "subword"
# Figure 1: red capitals, yellow subwords.
COLOURS = {WORD: "#1f77b4", CAPITAL: "#d62728", SUBWORD: "#e0b000"}


@dataclass(frozen=True)
class Vocabulary:
    """The analysed tokens: `ids` (n,) into the matrix, tokens, forms, and counts in the corpus.

    A form is a region of figure 1: subword, beginning of a capitalised word, beginning of another word.
    """

    ids: NDArray[np.int64]
    tokens: list[str]
    forms: list[str]
    counts: NDArray[np.int64]

    def ranks(self) -> NDArray[np.int64]:
        """Frequency ranks (n,) from 1; equal counts by id."""
        ranks = np.empty(len(self.ids), np.int64)
        ranks[np.argsort(-self.counts, kind="stable")] = np.arange(1, len(self.ids) + 1)
        return ranks

    def bands(self) -> list[str]:
        names = [*BANDS, REST]
        band = np.searchsorted(list(BANDS.values()), self.ranks(), side="left")
        return [UNSEEN if count == 0 else names[i] for count, i in zip(self.counts, band, strict=True)]


def read_vocabulary(static: Static, corpus: Corpus) -> Vocabulary:
    """Count tokens, without special and unused; raises UsageError for a vocabulary without marks."""
    tokenizer = static.backbone.tokenizer
    table = tokenise(tokenizer, corpus.sentences, max_length=None, add_special_tokens=False)
    rows = min(len(static.tokens), len(static.vectors))
    counts = np.bincount(table.ids, minlength=rows)
    special = set(tokenizer.all_special_tokens)
    ids = [
        i
        for i, token in enumerate(static.tokens[:rows])
        if token is not None and token not in special and not re.fullmatch(r"\[unused\d+\]", token)
    ]
    tokens = [static.tokens[i] for i in ids]
    begin = _begin_mark(set(tokens), static.recipe.backbone)
    forms = []
    for token in tokens:
        subword = token.startswith("##") if begin is None else not token.startswith(begin)
        # Byte-level tokens represent bytes by other letters, some of them capitals; only the decoded text has the case.
        capital = any(letter.isupper() for letter in tokenizer.convert_tokens_to_string([token]))
        forms.append(SUBWORD if subword else CAPITAL if capital else WORD)
    return Vocabulary(np.array(ids), tokens, forms, counts[ids])


def _begin_mark(tokens: set[str], backbone: str) -> str | None:
    """Mark of a word's beginning (RoBERTa, SentencePiece); None for subwords marked by ## (WordPiece)."""
    if "##s" in tokens:
        return None
    for mark in ("Ġ", "▁"):
        if f"{mark}the" in tokens:
            return mark
    raise UsageError(
        f"the vocabulary of {backbone!r} marks subwords neither as WordPiece (##) nor begins of words as RoBERTa (Ġ) or"
        " SentencePiece (▁); its tokens cannot be told apart."
    )


def analyse_bias(
    backbones: Sequence[str], matrix: Literal["input", "output"], corpus: Corpus, neighbours: int, runtime: Runtime
) -> Analysis:
    """Numbers, points and figures for each backbone's token embeddings ("input") or MLM head rows ("output").

    `neighbours` is the k of purity and neighbour distance. Raises UsageError for a corpus without a known token.
    """
    from sklearn.decomposition import PCA

    summary, classes, points = [], [], []
    figures: list[Scatter] = []
    conditions: dict[str, Any] = {"corpus": corpus.identity(), "matrix": matrix, "neighbours": neighbours}
    conditions["backbones"] = []
    for number, backbone in enumerate(backbones):
        static = Static(StaticRecipe(backbone=backbone, matrix=matrix), runtime)
        name = static.backbone.source.name
        runtime.progress.say(f"{name}: {len(static.vectors):,} token embeddings")
        conditions["backbones"].append(static.backbone.source.identity())
        everything = static.vectors.cpu().numpy()
        vocabulary = read_vocabulary(static, corpus)
        if not vocabulary.counts.any():
            raise UsageError(f"corpus {corpus.name} has no token of {name}.")
        vectors = everything[vocabulary.ids]
        pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
        coordinates, shares = pca.transform(vectors.astype(np.float64)), pca.explained_variance_ratio_.tolist()
        seen = vocabulary.counts > 0
        summary.append(
            {
                "Backbone": name,
                "Tokens": len(vectors),
                "Seen": int(seen.sum()),
                "Mean cosine, all rows": anisotropy(everything),
                "Mean cosine, seen": anisotropy(vectors[seen]) if seen.sum() > 1 else None,
                "PC1 share": shares[0],
                "PC2 share": shares[1],
                **_with_frequency(vocabulary.counts[seen], vectors[seen], coordinates[seen]),
            }
        )
        classes += class_rows(name, vocabulary, vectors, neighbours)
        points += _point_rows(name, vocabulary, coordinates)
        stem = f"bias-{number + 1}" if len(backbones) > 1 else "bias"
        figures += _figures(stem, name, vocabulary, coordinates)
    tables = [
        AnalysisTable("bias", "Mean cosine and frequency", SUMMARY, summary),
        AnalysisTable("bias-classes", "By frequency, subword and case", CLASSES, classes),
        AnalysisTable("bias-points", "Tokens in the plane", POINTS, points, data_only=True),
    ]
    about = _about(matrix, corpus, neighbours)
    return Analysis("bias", "Biases of token embeddings", about, tables, figures, conditions)


SUMMARY: dict[str, int | None] = {
    **{"Backbone": None, "Tokens": 0, "Seen": 0, "Mean cosine, all rows": 4, "Mean cosine, seen": 4},
    **dict.fromkeys(("PC1 share", "PC2 share", "abs. ρ PC1", "abs. ρ PC2", "ρ norm"), 3),
}
CLASSES: dict[str, int | None] = {
    **{"Backbone": None, "By": None, "Class": None, "Tokens": 0},
    **dict.fromkeys(("Norm", "Spread", "Neighbour distance", "Purity", "Chance", "Above chance", "Mean's distance"), 3),
    **dict.fromkeys(("Norm, error", "Spread, error", "Neighbour distance, error", "Above chance, error"), 4),
}
POINTS: dict[str, int | None] = dict.fromkeys(["Backbone", "Token", "Count", "Rank", "Band", "Form", "PC1", "PC2"])


def _about(matrix: str, corpus: Corpus, neighbours: int) -> list[str]:
    what = "token embeddings" if matrix == "input" else "rows of the MLM head"
    return [
        f"The {what}, without special and unused tokens except where it says all rows. Frequencies: counted in"
        f" {len(corpus.sentences):,} sentences of {corpus.name}.",
        "Mean cosine: of any two embeddings (PromptBERT table 2). PC1, PC2 share: of the variance, in the first two"
        " principal components. ρ: Spearman correlation with frequency over the tokens seen (a component has no sign).",
        "Norm: mean length. Spread: root mean square distance to the class's own mean. Neighbour distance: mean"
        f" distance to the {neighbours} nearest of all tokens. Purity: share of these neighbours that are of the class;"
        " Chance: the class's share of all other tokens. Error: standard error over tokens."
        " Mean's distance: from the class's mean to the mean of all"
        " other tokens, divided by the spread of everything. All distances are Euclidean.",
    ]


def _with_frequency(
    counts: NDArray[np.int64], vectors: NDArray[np.float32], plane: NDArray[np.float64]
) -> dict[str, float | None]:
    frequency = counts.astype(np.float64)
    rho = [correlations(values, frequency)["spearman"] for values in plane.T]
    norm = correlations(np.linalg.norm(vectors.astype(np.float64), axis=1), frequency)["spearman"]
    first, second = (None if value is None else abs(value) for value in rho)
    return {"abs. ρ PC1": first, "abs. ρ PC2": second, "ρ norm": norm}


def class_rows(
    name: str, vocabulary: Vocabulary, vectors: NDArray[np.float32], neighbours: int
) -> list[dict[str, object]]:
    from sklearn.neighbors import NearestNeighbors

    wide = vectors.astype(np.float64)
    nearest = NearestNeighbors(n_neighbors=min(neighbours, len(wide) - 1), algorithm="brute")
    distances, rows = nearest.fit(wide - wide.mean(axis=0)).kneighbors()
    spread = _spread(wide)
    class_lines: list[dict[str, object]] = []
    groupings = {"frequency": (vocabulary.bands(), [*BANDS, REST, UNSEEN])}
    groupings["form"] = (vocabulary.forms, [WORD, CAPITAL, SUBWORD])
    for by, (labels, order) in groupings.items():
        at = np.array(labels)
        alike = (at[rows] == at[:, None]).mean(axis=1)
        for label in filter(set(labels).__contains__, order):
            members = at == label
            purity = float(alike[members].mean())
            count = int(members.sum())
            chance = (count - 1) / (len(wide) - 1)
            norms = np.linalg.norm(wide[members], axis=1)
            apart = np.square(wide[members] - wide[members].mean(axis=0)).sum(axis=1)
            errors = {"Norm": _error(norms), "Spread": _error(apart) / max(2 * _spread(wide[members]), 1e-12)}
            errors |= {"Neighbour distance": _error(distances[members].mean(axis=1))}
            errors |= {"Above chance": _error(alike[members])}
            others = count < len(wide)
            away = np.linalg.norm(wide[members].mean(axis=0) - wide[~members].mean(axis=0)) if others else None
            class_lines.append(
                {
                    "Backbone": name,
                    "By": by,
                    "Class": label,
                    "Tokens": count,
                    "Norm": float(norms.mean()),
                    "Spread": _spread(wide[members]),
                    "Neighbour distance": float(distances[members].mean()),
                    "Purity": purity,
                    "Chance": chance,
                    "Above chance": purity - chance,
                    "Mean's distance": None if away is None else float(away) / spread,
                    **{f"{name}, error": error for name, error in errors.items()},
                }
            )
    return class_lines


def _error(values: NDArray[np.float64]) -> float:
    """Return the standard error of a mean over tokens."""
    return float(values.std(ddof=1)) / float(np.sqrt(len(values))) if len(values) > 1 else 0.0


def _spread(vectors: NDArray[np.float64]) -> float:
    return float(np.sqrt(vectors.var(axis=0).sum()))


def _point_rows(name: str, vocabulary: Vocabulary, plane: NDArray[np.float64]) -> list[dict[str, object]]:
    counts, ranks = vocabulary.counts.tolist(), vocabulary.ranks().tolist()
    columns = zip(vocabulary.tokens, counts, ranks, vocabulary.bands(), vocabulary.forms, plane.tolist(), strict=True)
    return [dict(zip(POINTS, [name, *row, x, y], strict=True)) for *row, (x, y) in columns]


def _figures(stem: str, name: str, vocabulary: Vocabulary, plane: NDArray[np.float64]) -> list[Scatter]:
    axes = ("first principal component", "second principal component")
    # Frequent tokens (dark) are drawn last, on top.
    by_count = np.argsort(vocabulary.counts, kind="stable")
    frequency = Points(
        "tokens",
        plane[by_count, 0].tolist(),
        plane[by_count, 1].tolist(),
        [vocabulary.tokens[i] for i in by_count],
        values=np.log10(1.0 + vocabulary.counts[by_count]).tolist(),
    )
    forms = np.array(vocabulary.forms)
    by_form = []
    for form in (WORD, SUBWORD, CAPITAL):
        rows = np.flatnonzero(forms == form)
        if len(rows):
            labels = [vocabulary.tokens[i] for i in rows]
            by_form.append(Points(form, plane[rows, 0].tolist(), plane[rows, 1].tolist(), labels, COLOURS[form]))
    return [
        Scatter(f"{stem}-frequency", f"{name}: token frequency", *axes, [frequency], "log10(1 + count)"),
        Scatter(f"{stem}-form", f"{name}: subword and case", *axes, by_form),
    ]
