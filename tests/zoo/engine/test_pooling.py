"""Pooling of states, dropout on packed rows, and what an engine needs of a model."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.engine.dropout import Dropout, cheapen_dropout, dropout, has_dropout, set_dropout
from zoo.engine.states import Pooling, masked_mean, pool
from zoo.errors import UsageError, ZooError
from zoo.methods.base import BackboneEncoder
from zoo.methods.pretrained import Pretrained
from zoo.plugins import METHODS
from zoo.recipes import all_recipes

# Poolings against numpy, and which layers they read against transformers' own hidden states.

HOW = get_args(Pooling)


def by_numpy(hidden: list[np.ndarray], mask: np.ndarray, how: str) -> np.ndarray:
    """One sentence at a time, only its real tokens."""
    rows = []
    for i, kept in enumerate(mask.astype(bool)):
        layers = [layer[i][kept].astype(np.float64) for layer in hidden]
        rows.append(
            {
                "cls": lambda h: h[-1][0],
                "last": lambda h: h[-1].mean(0),
                "mean": lambda h: h[-1].mean(0),
                "sif": lambda h: h[-1].mean(0),  # where all tokens weigh the same
                "max": lambda h: h[-1].max(0),
                "cls-mean": lambda h: (h[-1][0] + h[-1].mean(0)) / 2,
                "first-last-h0": lambda h: ((h[0] + h[-1]) / 2).mean(0),
                "first-last-h1": lambda h: ((h[1] + h[-1]) / 2).mean(0),
                "top2": lambda h: ((h[-2] + h[-1]) / 2).mean(0),
            }[how](layers)
        )
    return np.stack(rows)


@pytest.fixture
def states() -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = [torch.randn(4, 7, 5, generator=generator) for _ in range(5)]
    return hidden, (torch.arange(7)[None] < torch.tensor([7, 1, 4, 2])[:, None]).long()


@pytest.mark.parametrize("how", HOW)
def test_pooling_equals_numpy(states: tuple[list[torch.Tensor], torch.Tensor], how: Pooling) -> None:
    hidden, mask = states
    wanted = by_numpy([h.numpy() for h in hidden], mask.numpy(), how)
    np.testing.assert_allclose(pool(hidden, mask, how).numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("how", HOW)
def test_padded_positions_never_matter(states: tuple[list[torch.Tensor], torch.Tensor], how: Pooling) -> None:
    hidden, mask = states
    poisoned = [h.masked_fill(mask[..., None] == 0, 1e6) for h in hidden]
    assert torch.equal(pool(poisoned, mask, how), pool([h * mask[..., None] for h in hidden], mask, how))


@pytest.mark.parametrize("how", HOW)
def test_half_precision_states_are_pooled_in_float32(how: Pooling) -> None:
    """2,048 ones and a small number: a bfloat16 sum would lose it."""
    hidden = [torch.ones(1, 2049, 1, dtype=torch.bfloat16) for _ in range(3)]
    result = pool(hidden, torch.ones(1, 2049, dtype=torch.long), how)
    assert result.dtype == torch.float32
    assert result.item() == 1.0


def test_an_unknown_pooling_is_named() -> None:
    """A plugin may have a name of its own: the error lists those that there are."""
    with pytest.raises(UsageError, match="'avg' is none of last, first-last-h0"):
        pool([torch.ones(1, 2, 3)], torch.ones(1, 2), "avg")  # type: ignore[arg-type]


def test_masked_mean_of_nothing_is_finite() -> None:
    assert torch.equal(masked_mean(torch.ones(1, 3, 2), torch.zeros(1, 3)), torch.zeros(1, 2))


# Cheap dropout: its rate, its scale, its gradient, and that the seed alone decides it.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_rate_and_scale(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    n = 400_003  # no multiple of four
    dropped = dropout(torch.ones(n, dtype=dtype), rate)
    share = float((dropped == 0).float().mean())
    assert abs(share - rate) < 4 * math.sqrt(rate * (1 - rate) / n)
    kept = dropped[dropped != 0].float()
    assert (kept - 1 / (1 - rate)).abs().max() < (1e-4 if dtype == torch.float32 else 0.01) / (1 - rate)


def test_elements_are_dropped_independently() -> None:
    """Neighbours share a draw of 64 bits: their masks are still uncorrelated, at every distance within it."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(400_000), 0.3) != 0).double() - 0.7
    for distance in (1, 2, 3, 4, 5):
        correlation = float((kept[distance:] * kept[:-distance]).mean()) / (0.3 * 0.7)
        assert abs(correlation) < 4 / math.sqrt(400_000), distance


def test_gradient_goes_where_the_values_went() -> None:
    torch.manual_seed(2)
    x = torch.randn(50, 7, requires_grad=True)
    y = dropout(x, 0.4)
    (y * 3).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), 3 * y.detach())


def test_the_seed_decides() -> None:
    x = torch.ones(1000)
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout(x, 0.1))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ends(rate: float) -> None:
    assert torch.equal(dropout(torch.ones(10), rate), torch.full((10,), 1 - rate))


def test_modules_are_exchanged_with_their_rate_and_mode() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.7), nn.AlphaDropout(0.2))).eval()
    names = list(model.state_dict())
    cheapen_dropout(model)
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    assert [module.p for module in dropouts] == [0.3, 0.7]
    assert not any(module.training for module in dropouts)
    assert isinstance(model[2][1], nn.AlphaDropout)
    assert list(model.state_dict()) == names
    x = torch.ones(100)
    assert torch.equal(dropouts[0](x), x)
    assert (dropouts[0].train()(x) == 0).any()


@pytest.mark.parametrize(("kind", "rate"), [("llama", 0.0), ("opt", 0.1), ("albert", 0.1)])
def test_a_rate_is_set_also_where_modules_draw_by_themselves(kind: str, rate: float) -> None:
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    more = {"albert": {"embedding_size": 16, "attention_probs_dropout_prob": rate}, "opt": {"word_embed_proj_dim": 32}}
    model = AutoModel.from_config(AutoConfig.for_model(kind, **shape, **more.get(kind, {}))).train()
    ids = torch.arange(2, 40)[None]
    for number in (rate, 0.0, 0.5):
        set_dropout(model, number)
        first, second = (model(input_ids=ids).last_hidden_state for _ in range(2))
        assert has_dropout(model) == (number > 0) != torch.equal(first, second)


# A backbone that lacks what a recipe needs is refused in a sentence, by every recipe; the others train on it.

WORDS = ("A man", "The old dog"), ("sees", "has"), ("the car", "a boat", "her house", "two balls")
SENTENCES = [" ".join(words) for words in product(*WORDS)]
LABELS = ["entailment", "contradiction", "ppdb:equivalence", "ppdb:independent"] * 2
LACKS = {"mask token": "mask token", "padding token": "padding token", "MLM head": "MLM head", "first token": "[CLS]"}


def recipes() -> list[str]:
    names: dict[object, str] = {}
    for name, spec in all_recipes().items():
        if issubclass(METHODS.get(spec.method), BackboneEncoder) and spec.method != "pretrained":
            cls, recipe = spec.resolve()
            names.setdefault((cls, cls.needs(recipe)), name)
    return list(names.values())


@pytest.fixture(scope="module")
def lacking(tiny_mlm: Path, tiny_causal: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    from transformers import PreTrainedTokenizerFast

    folder, tokens = tmp_path_factory.mktemp("lacking"), ("unk", "cls", "sep", "mask", "pad")
    places = {"first token": tiny_causal, "MLM head": tiny_causal}
    for name, need in (("mask", "mask token"), ("pad", "padding token")):
        places[need] = folder / name
        shutil.copytree(tiny_mlm, places[need], ignore=shutil.ignore_patterns("*token*"))
        special = {f"{token}_token": f"[{token.upper()}]" for token in tokens if token != name}
        PreTrainedTokenizerFast(tokenizer_file=str(tiny_mlm / "tokenizer.json"), **special).save_pretrained(
            places[need]
        )
    return places


def resolved(name: str, backbone: Path) -> tuple[type[BackboneEncoder], object]:
    cls, recipe = all_recipes()[name].resolve({"backbone": str(backbone)})
    small = {"batch_size": 8, "eval_every": 100, "epochs": 1}
    fields = {field.name for field in dataclasses.fields(recipe)}
    return cls, dataclasses.replace(recipe, **{key: value for key, value in small.items() if key in fields})


def encoder_of(name: str, backbone: Path) -> Encoder:
    cls, recipe = resolved(name, backbone)
    return cls(recipe, Runtime())


@pytest.mark.parametrize("name", recipes())
@pytest.mark.parametrize("need", LACKS)
def test_what_a_recipe_needs_is_refused_in_a_sentence(name: str, need: str, lacking: Mapping[str, Path]) -> None:
    cls, recipe = resolved(name, lacking[need])
    if need not in cls.needs(recipe):
        return
    with pytest.raises(UsageError) as refused:
        encoder_of(name, lacking[need])
    # A decoder lacks several things; any of them is a reason.
    needs = [words for other, words in LACKS.items() if other in cls.needs(recipe)]
    assert any(words in str(refused.value) for words in needs)
    if "[CLS]" in str(refused.value):
        check_instead(str(refused.value), cls, recipe)
    if need != "first token":
        with pytest.raises(UsageError, match=r"needs an? "):
            cls.sources(recipe, Runtime())


def check_instead(message: str, cls: type[BackboneEncoder], recipe: Any) -> None:
    """The setting that the message names makes the encoder; or it names another method, which does."""
    assert ("this recipe's" in message) != ("another method, such as avg-last" in message)
    setting = re.search(r"this recipe's (\w+)=(\w+)\.", message)
    if setting is None:
        encoder = encoder_of("avg-last", Path(recipe.backbone))
    else:
        encoder = cls(dataclasses.replace(recipe, **{setting[1]: setting[2]}), Runtime())
    assert encoder.dim


def test_a_teacher_is_named_as_the_teacher(lacking: Mapping[str, Path]) -> None:
    cls, recipe = resolved("rankcse-repo", lacking["MLM head"])
    with pytest.raises(UsageError, match=r"its teacher diffcse: the recipe needs an? "):
        cls.sources(recipe, Runtime())


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes())
@pytest.mark.parametrize("need", LACKS)
def test_any_other_recipe_trains_or_says_why_not(name: str, need: str, lacking: Mapping[str, Path]) -> None:
    try:
        encoder = encoder_of(name, lacking[need])
        labels = LABELS if encoder.traits(encoder.recipe).needs_pairs else None
        encoder.fit(Corpus("toy", SENTENCES, labels, None if labels else [0, 8]), dev_score=lambda _: 50.0, run=Run())
    except ZooError as error:
        assert "\n" not in str(error)
        return
    first, second = encoder.encode(["The dog", "The ball of a child"])
    assert abs(first - second).max() > 1e-6


def test_a_finished_encoder_is_read_as_its_folder_says(tiny_causal: Path) -> None:
    encoder = Pretrained(Pretrained.Recipe(model=str(tiny_causal), pooling="cls"), Runtime())
    first, second = encoder.encode(["The dog", "The ball of a child"])
    assert abs(first - second).max() < 1e-6
