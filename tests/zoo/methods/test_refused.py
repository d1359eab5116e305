"""Recipes that cannot be: each is refused with the name of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from zoo.errors import UsageError
from zoo.plugins import METHODS

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("burt", {"objectives": ()}, "objectives"),
    ("burt", {"objectives": ("pi", "pi")}, "objectives"),
    ("burt", {"objectives": ("pi", "nli")}, "objectives"),
    ("burt", {"paraphrases": ()}, "paraphrases"),
    ("burt", {"paraphrases": ("equivalence",)}, "paraphrases"),
    ("burt", {"negatives": 0}, "negatives"),
    ("cot-bert", {"second_template": None}, "template"),
    ("ct", {"batch_size": 20}, "batch_size"),
    ("ct", {"rate_steps": (500, 1000)}, "rate_steps"),
    ("ct", {"rate_steps": (500, 1000, 900, 2000)}, "rate_steps"),
    ("ct", {"steps": 0}, "steps"),
    ("infersent", {"shrink": 1.0}, "shrink"),
    ("infersent", {"dev_share": 0.0}, "dev_share"),
    ("infersent", {"dev_share": 1.0}, "dev_share"),
    ("infersent", {"lstm_dim": 0}, "lstm_dim"),
    ("infersent", {"decay": 0.0}, "decay"),
    ("infersent", {"token_rms": 0.0}, "token_rms"),
    ("isbert", {"kernels": (1, 2)}, "kernels"),
    ("isbert", {"kernels": ()}, "kernels"),
    ("isbert", {"warmup": 1.5}, "warmup"),
    ("moco", {"queue_size": 32}, "queue_size"),
    ("moco", {"momentum": 1.5}, "momentum"),
    ("moco", {"keeps": -1}, "keeps"),
    ("moco", {"key_mlp": "query", "pooler": "avg"}, "key_mlp"),
    ("moco", {"queue_drops": "first"}, "queue_drops"),
    ("moco", {"double_linear": True, "mlp_only_train": False}, "double_linear"),
    ("moco", {"linear_biases": False}, "linear_biases"),
    ("prompt", {"template": "[X] means nothing"}, "[MASK]"),
    ("promptbert", {"supervised": True}, "second_template"),
    ("promptbert", {"head": "none", "mlp_only_train": False}, "mlp_only_train"),
    ("promptbert", {"pooler": "avg"}, "pooler"),
    ("promptbert", {"positives": "neighbours"}, "positives"),
    ("ptbert", {"mlp_only_train": False}, "mlp_only_train"),
    ("ptbert", {"queue_size": 32, "batch_size": 64}, "queue_size"),
    ("sbert", {"warmup": 1.1}, "warmup"),
    ("sbert", {"weight_decay": -1.0}, "weight_decay"),
    ("sbert", {"adam_betas": (0.9,)}, "adam_betas"),
    ("sbert", {"adam_betas": (0.9, 1.0)}, "adam_betas"),
    ("sbert", {"epochs": 0}, "epochs"),
    ("sbert", {"head_rate": 0}, "head_rate"),
    ("sif", {"components": -1}, "components"),
    ("sif", {"a": 0.0}, "a must"),
    ("static", {"frequent": 36}, "remove"),
    ("static", {"remove": "freq", "frequent": 0}, "frequent"),
    ("twoviews", {"cutoff": (0.1,)}, "cutoff"),
    ("twoviews", {"cutoff": (0.1, 1.0)}, "cutoff"),
    ("twoviews", {"bias_correction": False}, "bias_correction"),
    ("twoviews", {"token_cutoff": (0.1, 1.0)}, "token_cutoff"),
    ("twoviews", {"mlp_only_train": False, "train_pooler": "avg"}, "pooler"),
]


@pytest.mark.parametrize(("method", "fields", "named"), WRONG)
def test_a_recipe_that_cannot_be_is_refused_by_name(method: str, fields: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, UsageError)) as caught:
        METHODS.get(method).Recipe(**fields)
    assert named in str(caught.value)
