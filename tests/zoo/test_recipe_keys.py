"""Every key of every recipe changes the vectors: a number that is written into the code instead of read is noticed."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from test_golden import BUILT_IN, SMALL, golden_vectors, stated

from zoo.plugins import METHODS

EVERYWHERE = ("temperature",)  # each loss reads it for itself; other shared keys are read in one place
ANGLE = "BackboneRecipe TrainedRecipe ContrastiveRecipe CoSENTRecipe AnglERecipe".split()
FIRST = {
    **dict.fromkeys(ANGLE, "angle"),
    "TemplateRecipe": "causal",
    "SimCSERecipe": "simcse",
    "PromptTrainingRecipe": "promptbert",
    "PromptBERTRecipe": "promptbert",
}
UNSEEN = {  # why a key cannot, or must not, change the vectors of a training without a development set
    "backbone": "names files, which are part of a cell's key",
    "model": "names files",
    "path": "names a file",
    "file_name": "names a file; test_onnx",
    "revision": "names a version of files on the hub",
    "query_prompt": "of queries; test_roles",
    "document_prompt": "of documents; test_roles",
    "backend": "names extras; test_finished_messages",
    "vocabulary": "names files",
    "frequencies": "names a file",
    "rewrites": "of a generator; test_eol",
    "summarise": "of a generator; test_eol",
    "generator": "names files",
    "start": "names another recipe",
    "fit_on": "says which texts a run hands to it; tests of runs",
    "eval_every": "of the development scores",
    "looks": "of the development scores",
    "eval_within_epochs": "of the development scores",
    "patience": "of the development scores",
    "select_like_training": "of the development scores",
    "test_encoder": "of the development scores",
    "decay": "of InferSent's later epochs, of which the held-out pairs keep the best; test_ports has five",
    "shrink": "as decay",
    "shrink_when": "as decay",
    "least_rate": "as decay",
    "infersent.epochs": "as decay",
    "infersent-words.epochs": "as decay",
    "chunk_rows": "gives the same gradient in less memory, which test_simcse compares",
    "srl": "needs spaCy; test_moco",
    "negation": "needs spaCy; test_sncse",
    "neutral": "the pairs here have no neutral one; test_cosent",
    "blank_in_training": "of tokenizers with blanks; test_templates",
    "denoise_from_zero": "of RoBERTa's positions; test_prompt",
    "matrix": "the model here has one matrix for both; test_static",
    "ppmi_tokens": "a bound on a corpus of millions of tokens; test_static_contrastive",
    "most_words": "a bound on millions of words; test_wordvectors",
    "mask_token": "of decoders, which have no such token; test_llm2vec",
}
# By key, or by method and key: the value to set, and the settings under which the key is read.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "accumulate": (2, {"batch_size": 16}),
    "adam_betas": ((0.5, 0.6), {}),
    "augment": (("delete:0.3:word",), {}),
    "base": ("avg-first-last", {}),
    "bias_correction": (False, {"optimizer": "transformers-adamw"}),
    "cutoff": ((0.5, 0.0), {}),
    "dropout": (0.3, {}),
    "eigenvalue_floor": (0.5, {}),
    "frequent": (1, {"remove": "freq"}),
    "hard_negative_weight": (1.0, {"supervised": True}),
    "keeps": (3, {"augment": ("delete:0.3:word",)}),
    "kernels": ((1, 3), {}),
    "layers": ("top2", {}),
    "linear_biases": (False, {"double_linear": True}),
    "masked": (0.1, {}),
    "max_grad_norm": (1e-3, {}),
    "max_length": (5, {}),
    "pretrained.max_length": (5, {"pooling": "mean"}),
    "min_chars": (40, {}),
    "mlm_rate": (0.5, {"mlm_weight": 0.1}),
    "mlp_only_train": (False, {"pooler": "cls"}),
    "model2vec.dim": (8, {}),
    "static-contrastive.dim": (8, {}),
    "momentum": (0.5, {}),
    "ct.negatives": (3, {}),
    "negative_template": ('The sentence "[X]" is not [STEP] but [MASK] .', {}),
    "nested": ((1.0, 0.5), {}),
    "noise": ("delete:0.2:word", {}),
    "objectives": (("nli",), {}),
    "optimizer": ("transformers-adamw", {}),
    "paraphrases": (("ppdb:equivalence",), {}),
    "pooler": ("avg", {}),
    "ptbert.heads": (1, {"states": "tokens"}),
    "ptbert.pool": ("mean", {"states": "tokens"}),
    "pretrained.prompt": ("all: ", {"pooling": "mean"}),
    "pretrained.pooling": ("max", {"pooling": "mean"}),
    "positive_weight": (0.5, {}),
    "queue_drops": ("first", {"positives": "query", "queue_size": 24}),
    "rate_steps": ((1, 2, 3, 4), {}),
    "rates": ((1e-3, 8e-4, 6e-4, 4e-4), {}),
    "second_template": ('The sentence "[X]" is [MASK] .', {}),
    "shuffle": ((True, False), {}),
    "sif_a": (0.5, {"pooler": "sif"}),
    "avg.sif_a": (0.5, {"layers": "sif"}),
    "smoothing": (0.5, {}),
    "steps": (1, {}),
    "ct.steps": (2, {}),
    "supervised": (True, {}),
    "table_batch_size": (8, {}),
    "teacher_temperature": (0.5, {"ranking": "listnet"}),
    "teachers": (("simcse",), {}),
    "targets": (("query",), {}),
    "template": ('The sentence "[X]" is [MASK] .', {}),
    "eol.template": ('So : "[X]" is:"', {}),
    "further": (('So : "[X]" is:"',), {}),
    "layer": (0, {}),
    "mean_of_end": (True, {"template": 'So : "[X]" is:"'}),
    "prepend_from": (0, {"layer": -1, "prepend_until": 2}),
    "prepend_until": (0, {"layer": -1}),
    "causal.template": ('So : "[X]" is "', {}),
    "adapted-angle.template": ('So : "[X]" is "', {}),
    "test_pooling": ("max", {}),
    "token_cutoff": ((0.5, 0.0), {}),
    "top_k": (3, {}),
    "train_max_length": (4, {}),
    "train_pooler": ("avg_top2", {}),
    "walk_length": (1, {"weighting": "usif"}),
    "warmup": (0.9, {}),
    "sentence-crops.warmup": (0.9, {"batch_size": 2}),
    "warmup_steps": (1, {}),
    "weights": ((5.0, 1.0), {"nested": (1.0, 0.5)}),
    "width": (8, {}),
    "flow.width": (8, {}),
    "window": (4, {}),
}


@functools.cache
def vectors(name: str, backbone: Path, settings: tuple[tuple[str, Any], ...]) -> np.ndarray:
    return golden_vectors(name, backbone, **dict(settings))


def keys() -> list[tuple[str, str]]:
    """A method and a key: each once, with the first method that has it, but those that every loss reads by itself."""
    fields: dict[tuple[str, ...], tuple[str, str]] = {}
    for name in BUILT_IN:
        recipe: Any = METHODS.get(name).Recipe
        for field in dataclasses.fields(recipe):
            owner = next(c for c in reversed(recipe.__mro__) if field.name in vars(c).get("__annotations__", {}))
            owner_name = (name,) if field.name in EVERYWHERE else ()
            if not {field.name, f"{name}.{field.name}"} & UNSEEN.keys():
                first = FIRST.get(owner.__name__, name) if not owner_name else name
                fields.setdefault((owner.__name__, field.name, *owner_name), (first, field.name))
    return list(fields.values())


def changed(recipe: Any, field: str, now: Any) -> Any:
    """Another value of a key: of two words the other one, of numbers the double."""
    if isinstance(now, bool):
        return not now
    if isinstance(now, (int, float)):
        return now * 2 if now else type(now)(1)
    words = [word for word in get_args(get_type_hints(recipe)[field]) if isinstance(word, str) and word != now]
    return words[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), keys())
def test_a_key_changes_the_vectors(name: str, key: str, backbone: Path) -> None:
    recipe: Any = METHODS.get(name).Recipe
    fields = {field.name: field for field in dataclasses.fields(recipe)}
    value, needed = CHANGES.get(f"{name}.{key}", CHANGES.get(key, (None, {})))
    needed = {**stated()[name].get("settings", {}), **needed}
    now = needed.get(key, SMALL.get(key, fields[key].default))
    if key not in CHANGES and f"{name}.{key}" not in CHANGES:
        value = changed(recipe, key, now)
    before = vectors(name, backbone, tuple(needed.items()))
    after = vectors(name, backbone, tuple({**needed, key: value}.items()))
    assert before.shape != after.shape or not np.array_equal(before, after), (name, key, value)
