"""Families of methods, for lists; the methods are given by name, so that none has to be loaded."""

from __future__ import annotations

from zoo.registry import METHODS

FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "controls": ("what every method is measured against", ("random", "bag-of-words")),
    "pooling": ("a backbone's states pooled, nothing is trained", ("cls", "avg", "max")),
    "words": (
        "static token embeddings and word vectors, averaged",
        ("static", "wordvectors", "sif", "sif-tokens", "model2vec", "static-contrastive"),
    ),
    "transforms": ("a linear map or a flow fitted on vectors", ("whitening", "flow")),
    "prompts": ("a template and its [MASK] state", ("prompt", "promptbert", "optiprompt")),
    "contrastive": (
        "trained by contrast of sentences (simcse-sup: with labels)",
        ("simcse", "moco", "ptbert", "ct", "isbert", "twoviews", "consert-joint", "consert-continued"),
    ),
    "siamese": ("trained on labelled pairs", ("sbert", "burt", "infersent", "infersent-words")),
    "finished": ("encoders and vectors made elsewhere, measured as they are", ("pretrained", "vectors")),
}
"""Family: its description, and the registered names of its methods."""

PLUGINS = "plugins"


def family_of(method: str) -> str:
    """Return the family of a registered method; PLUGINS for one that is not built in."""
    for name, (_, methods) in FAMILIES.items():
        if method in methods and METHODS.is_builtin(method):
            return name
    return PLUGINS


def what(family: str) -> str:
    """Return the short description of a family."""
    return FAMILIES[family][0] if family in FAMILIES else "methods of plugins"
