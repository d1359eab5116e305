"""How long a plan will take: counted work divided by a measured speed. The estimate is rough."""

from __future__ import annotations

from pathlib import Path

from benchmark.records.store import Records
from benchmark.run.plan import EncoderPlan
from zoo.files import read_mapping

_CHARACTERS_PER_TOKEN = 4.3
_UTILISATION = 0.35  # the fraction of a matrix product's speed that encoding and training reach


def _matmul_parameters(plan: EncoderPlan, allow_pickle: bool) -> int | None:
    """Return the parameters in matrix products per token, from the backbone's config; None where unknown."""
    from zoo.engine.backbone import find_backbone

    name = getattr(plan.recipe, "backbone", None) or getattr(plan.recipe, "model", None)
    if name is None:
        return None
    found = find_backbone(name, getattr(plan.recipe, "revision", None), allow_pickle=allow_pickle)
    return parameters_of(found.folder / "config.json")


def parameters_of(path: Path) -> int | None:
    """Return the parameters in matrix products per token, from a config.json; None where it does not say."""
    if not path.is_file():
        return None
    config = read_mapping(path)
    width, layers, inner = (config.get(key) for key in ("hidden_size", "num_hidden_layers", "intermediate_size"))
    if not isinstance(width, int) or not isinstance(layers, int) or not isinstance(inner, int):
        return None
    return layers * (4 * width * width + 2 * width * inner)


def estimate_seconds(
    encoder_plan: EncoderPlan, records: Records, speed: float, allow_pickle: bool = False
) -> float | None:
    """Return the seconds left for one encoder (0 where every cell is finished), or None where its size is unknown."""
    pending = [c for c in encoder_plan.cells if records.finished(encoder_plan.name, c.task.name, c.key) is None]
    if not pending:
        return 0.0
    parameters = _matmul_parameters(encoder_plan, allow_pickle)
    if parameters is None:
        return None
    characters = sum(len(text) for text in {t for c in pending if c.task.data for t in c.task.data.texts()})
    tokens = 0.0
    if encoder_plan.corpus is not None:
        longest = getattr(encoder_plan.recipe, "train_max_length", None) or 512
        tokens = sum(min(len(s) / _CHARACTERS_PER_TOKEN + 2, longest) for s in encoder_plan.corpus.sentences)
    return seconds_of(parameters, characters, tokens, encoder_plan.traits.training_passes, speed)


def seconds_of(parameters: int, characters: float, tokens: float, passes: float, speed: float) -> float:
    """Return the seconds to encode the characters and train `passes` epochs on the tokens (0: one forward pass)."""
    work = 2.0 * parameters * characters / _CHARACTERS_PER_TOKEN
    work += max(6.0 * passes, 2.0) * parameters * tokens
    return work / (_UTILISATION * speed) + 2.0
