"""The conformance check catches what it promises to catch, and every registered method passes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from fakes import DECODERS
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from zoo.check import ODD_TEXTS, PROBES, check_vectors, own_line, probe
from zoo.conformance import check
from zoo.encoder import Corpus, Encoder, FitReport, Run, Runtime, Traits
from zoo.errors import ContractError
from zoo.plugins import METHODS
from zoo.recipes import all_recipes

# Smaller than the papers', so that the toy corpus trains in a second; "model" and "pooling" are pretrained's own keys.
NEED_MLM_HEAD = (
    "diffcse",
    "diffcse-repo",
    "infocse",
    "optiprompt-repo",
    "prompt-top200",
    "prompt-top200-denoise",
    "prompt-top200-denoise-period",
    "prompt-top200-period",
    "promptbert-sup-repo",
    "promptbert-sup-transfer",
    "simcse-mlm",
    "static-head",
    "rankcse",
    "rankcse-listnet",
    "rankcse-listnet-repo",
    "rankcse-repo",
    "tsdae",
)
SMALL = {"batch_size": 32, "steps": 10, "pseudo_tokens": 4, "queue_size": 64, "k": 8, "lstm_dim": 8}
SMALL |= {"table_steps": 10, "table_batch_size": 32, "mntp_steps": 5, "mntp_batch_size": 8, "mntp_length": 32}
RECIPES = all_recipes()


def hashed(texts: Sequence[str]) -> np.ndarray:
    """A valid encoder's vectors: a function of each text alone."""
    rows = [np.random.default_rng(list(t.encode("utf-8", "surrogatepass"))[:200]).normal(size=6) for t in texts]
    return np.array(rows, np.float32).reshape(-1, 6)


@dataclass(frozen=True)
class Nothing:
    """No settings."""


class Good(Encoder):
    Recipe = Nothing
    dim = 6

    def encode(self, texts: Sequence[str]) -> Any:
        return hashed(texts)

    def save(self, folder: Path) -> None:
        (folder / "x").write_text("x", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        return cls(Nothing(), runtime or Runtime())

    def fingerprint(self) -> str:
        return "good"


def encoder(encode: Callable[[Sequence[str]], Any]) -> Encoder:
    good = Good(Nothing(), Runtime())
    good.encode = encode  # type: ignore[method-assign]
    return good


def with_nan(texts: Sequence[str]) -> np.ndarray:
    vectors = hashed(texts)
    for i, text in enumerate(texts):
        if text in (PROBES[2], PROBES[5]):
            vectors[i, 3] = np.nan
    return vectors


def neighbours(texts: Sequence[str]) -> np.ndarray:
    vectors = hashed(texts)
    return vectors + 0.1 * np.roll(vectors, 1, axis=0)


BROKEN: dict[str, tuple[Callable[[Sequence[str]], Any], str]] = {
    "too wide": (lambda t: np.zeros((len(t), 7), np.float32), r"shape \(8, 6\), not of shape \(8, 7\)"),
    "row lost": (lambda t: hashed(t)[:-1], r"not of shape \(7, 6\)"),
    "flat": (lambda t: hashed(t).ravel(), r"not of shape \(48,\)"),
    "list": (lambda t: hashed(t).tolist(), "not builtins.list"),
    "tensor": (lambda t: torch.from_numpy(hashed(t)).requires_grad_(), r"not torch\.Tensor"),
    "float64": (lambda t: hashed(t).astype(np.float64), "not of dtype float64"),
    "float16": (lambda t: hashed(t).astype(np.float16), "not of dtype float16"),
    "sorted": (lambda t: hashed(sorted(t)), "depend on the order"),
    "reversed": (lambda t: hashed(t)[::-1], "depend on the order"),
    "neighbours": (neighbours, "depend on the order"),
    "batch mean": (lambda t: hashed(t) - np.arange(len(t), dtype=np.float32)[:, None], "depend on the order"),
    "mean of the call": (lambda t: hashed(t) - hashed(t).mean(axis=0), "depends on the other texts of the call"),
    "number of texts": (lambda t: hashed(t) * np.float32(len(t)), "depends on the other texts of the call"),
    "length of the longest": (
        lambda t: hashed(t) + np.float32(max(map(len, t))),
        "depends on the other texts of the call",
    ),
    "wrong shape for one": (lambda t: hashed(t).squeeze(), r"shape \(1, 6\), not of shape \(6,\)"),
    "NaN": (with_nan, f"2 of 8 vectors have NaN or infinity, first for '{PROBES[2]}'"),
    "infinity": (lambda t: np.full((len(t), 6), np.inf, np.float32), "8 of 8 vectors have NaN"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_encoder_is_caught_by_the_methods_name(fault: str) -> None:
    encode, words = BROKEN[fault]
    with pytest.raises(ContractError, match=words) as caught:
        probe(encoder(encode), "the-method")
    assert str(caught.value).startswith("the-method: ")


def test_a_good_encoder_passes_the_probe_and_the_check() -> None:
    probe(Good(Nothing(), Runtime()), "good")
    findings = list(check(Good, Nothing(), Runtime(), "good"))
    assert len(findings) == 14 and all(wrong is None for _, wrong in findings)


def test_deviations_within_the_tolerance_of_the_precision_pass() -> None:
    """bf16 may round with the batch; fp32 may not."""

    def wobbling(texts: Sequence[str]) -> np.ndarray:
        return hashed(texts) + np.float32(0.01) * (texts[0] == PROBES[0])

    good = encoder(wobbling)
    with pytest.raises(ContractError, match="order"):
        probe(good, "x")
    good.runtime = Runtime(precision="bf16")
    probe(good, "x")


def test_check_vectors_accepts_no_texts() -> None:
    check_vectors(np.zeros((0, 6), np.float32), [], 6, "x")
    with pytest.raises(ContractError):
        check_vectors(np.zeros((0,), np.float32), [], 6, "x")


class Forgetful(Good):
    """Loads into something else."""

    def fingerprint(self) -> str:
        return str(id(self))


class Restless(Good):
    """Another answer each time."""

    def encode(self, texts: Sequence[str]) -> Any:
        noise = np.random.default_rng().normal(scale=1e-4, size=(len(texts), 6))
        return hashed(texts) + noise.astype(np.float32)


class Fragile(Good):
    """Raises for a text it does not expect."""

    def encode(self, texts: Sequence[str]) -> Any:
        return np.array([hashed([t])[0] / len(t.split()[0]) for t in texts], np.float32).reshape(-1, 6)


class Pretender(Good):
    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(needs_corpus=True)

    def fit(self, corpus: Corpus | None, *, dev_score: Any = None, run: Run) -> FitReport:
        return FitReport(fitted=True)


class WrongTarget(Good):
    """Adapts to something invalid."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(transductive=True)

    def adapt(self, texts: Sequence[str]) -> Encoder:
        return encoder(lambda t: np.zeros((1, 1), np.float32))


class Abstract(Encoder):
    Recipe = Nothing
    dim = 6


class Untimed(Good):
    """Counts its texts and not the time that they take."""

    def encoding_stats(self) -> dict[str, Any]:
        return {"texts": 8, "seconds": 0.0}


@pytest.mark.parametrize(
    ("cls", "where", "words"),
    [
        (Abstract, "made from its recipe", "abstract method"),
        (Forgetful, "save and load", "another fingerprint"),
        (Restless, "the same vectors", "deviation"),
        (Fragile, "odd texts", "IndexError"),
        (Pretender, "fit on a toy corpus", "fingerprint is unchanged"),
        (WrongTarget, "adapt to", "shape"),
        (Untimed, "what records state", "no seconds"),
    ],
)
def test_the_full_check_names_the_part_that_fails(cls: type[Encoder], where: str, words: str) -> None:
    wrong = {what: finding for what, finding in check(cls, Nothing(), Runtime(), "x") if finding}
    finding = next(finding for what, finding in wrong.items() if what.startswith(where))
    assert words in finding


class Learner(Good):
    """Has no vectors before it is fitted."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(needs_corpus=True)

    def fit(self, corpus: Corpus | None, *, dev_score: Any = None, run: Run) -> FitReport:
        assert corpus is not None
        self.width = len(corpus.sentences)
        return FitReport(fitted=True)

    def encode(self, texts: Sequence[str]) -> Any:
        return hashed(texts) * np.float32(self.width)

    def save(self, folder: Path) -> None:
        (folder / "x").write_text(str(self.width), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        learner = cls(Nothing(), runtime or Runtime())
        learner.width = int((folder / "x").read_text(encoding="utf-8"))
        return learner

    def fingerprint(self) -> str:
        return str(self.width)


class Unreported(Learner):
    """Says nothing about what it learned."""

    def fit(self, corpus: Corpus | None, *, dev_score: Any = None, run: Run) -> FitReport:
        super().fit(corpus, run=run)
        return None  # type: ignore[return-value]


class Unasked(Learner):
    """Reads sentences, and its traits do not say so."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits()


def test_a_method_that_learns_is_fitted_first() -> None:
    findings = list(check(Learner, Nothing(), Runtime(), "x"))
    assert ("fit on a toy corpus", None) in findings
    assert len(findings) == 14 and all(wrong is None for _, wrong in findings)


def test_a_fit_without_a_report_or_without_its_trait_is_told() -> None:
    (wrong,) = [wrong for _, wrong in check(Unreported, Nothing(), Runtime(), "x") if wrong]
    assert wrong.startswith("fit() must return a FitReport, not NoneType (")
    what, wrong = next((what, wrong) for what, wrong in check(Unasked, Nothing(), Runtime(), "x") if wrong)
    assert what == "fit without a corpus" and "AssertionError" in wrong


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_problem_ends_with_the_line_of_the_plugin() -> None:
    """Where its code raised, else where it defines the function whose result is wrong; not for a built-in method."""
    wrong = {what: problem for what, problem in check(Fragile, Nothing(), Runtime(), "x") if problem}
    raising = "return np.array([hashed([t])[0] / len(t.split()[0])"
    place = (
        rf"\(.*{Path(__file__).name}:{line_of(raising)}, in \S+: {re.escape(raising)}"  # <listcomp> before Python 3.12
    )
    assert re.search(place, wrong["odd texts (empty, 10,000 words, NUL, surrogate ...)"])
    wrong = {what: problem for what, problem in check(Restless, Nothing(), Runtime(), "x") if problem}
    defined = line_of('"""Another answer each time."""') + 2
    assert wrong["the same vectors the second time"].endswith(f"{Path(__file__).name}:{defined}, in encode)")
    cls = METHODS.get("bag-of-words")
    assert own_line(cls, ValueError("x"), "encode") == ""


def recipe_for(name: str, folder: Path, **more: Any) -> tuple[type[Encoder], Any]:
    defaults = {**SMALL, "backbone": str(folder), "model": str(folder), "pooling": "mean", **more}
    cls, recipe = RECIPES[name].resolve()
    known = {key: value for key, value in defaults.items() if key in type(recipe).__dataclass_fields__}
    if getattr(recipe, "epochs", 1) > 1:
        known["epochs"] = 1
    if getattr(recipe, "pairs", None) == "disjoint":
        # A batch takes two sentences for each pair, and the toy corpus has 50.
        known["batch_size"] = 16
    return cls, type(recipe)(**{**vars(recipe), **known})


CASES = [(name, "tiny_causal" if RECIPES[name].method in DECODERS else "tiny_bert") for name in sorted(RECIPES)]
CASES += [(name, "tiny_roberta") for name in sorted(RECIPES) if "roberta" in name]  # others: test_architectures.py


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backbone"), CASES)
def test_every_recipe_passes_the_check(
    name: str, backbone: str, request: pytest.FixtureRequest, tmp_path: Path, word_file: Path
) -> None:
    folder = request.getfixturevalue(backbone)
    if name in NEED_MLM_HEAD:
        AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(tmp_path / "head")
        AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "head")
        folder = tmp_path / "head"
    text_file = tmp_path / "texts.tsv"
    rows = (f"{text}\t{i} {i * i + 1}\n" for i, text in enumerate([*PROBES, *ODD_TEXTS[2:4]]))
    text_file.write_text("".join(rows), encoding="utf-8")
    path = text_file if RECIPES[name].method == "vectors" else word_file
    cls, recipe = recipe_for(name, folder, path=str(path))
    findings = list(check(cls, recipe, Runtime(), name))
    assert {what: wrong for what, wrong in findings if wrong} == {}
    traits = cls.traits(recipe)
    assert len(findings) == 14 + traits.transductive


def test_every_registered_method_is_among_the_checked_recipes() -> None:
    assert {spec.method for spec in RECIPES.values()} == set(METHODS.names())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cls", "avg-last", "static-freq", "whitening", "simcse", "ptbert", "pretrained"])
def test_fingerprint_follows_weights_precision_and_recipe(name: str, tiny_bert: Path) -> None:
    cls, recipe = recipe_for(name, tiny_bert)
    encoder = cls(recipe, Runtime())
    first = encoder.fingerprint()
    assert cls(recipe, Runtime(token_budget=99)).fingerprint() == first
    others = {
        cls(recipe, Runtime(precision="bf16")).fingerprint(),
        cls(recipe_for(name, tiny_bert, max_length=17)[1], Runtime()).fingerprint(),
    }
    with torch.no_grad():
        encoder.backbone.model.encoder.layer[1].output.dense.bias[0] += 1e-3  # type: ignore[attr-defined]
    others.add(encoder.fingerprint())
    assert len(others | {first}) == 4
