"""Output layers of checkpoints: a masked language model's or a decoder's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.encoder import Runtime
from zoo.engine.backbone import BackboneSource
from zoo.engine.model_folder import cannot_load, config_of, load_pretrained
from zoo.errors import CorruptError, UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel


def masked_lm(source: BackboneSource, runtime: Runtime, *, causal: bool = False) -> PreTrainedModel:
    """Load a model with its MLM head, or a decoder (`causal`), float32; raises UsageError without a head."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    config, what = config_of(f"backbone {source.name!r}", source.folder), "output layer" if causal else "MLM head"
    try:
        model, loading = load_pretrained(
            AutoModelForCausalLM if causal else AutoModelForMaskedLM,
            source.folder,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            use_safetensors=None if runtime.allow_pickle else True,
        )
    except Exception as error:
        refused = cannot_load(f"backbone {source.name!r}", source.folder, error)
        if isinstance(error, ValueError) and isinstance(refused, CorruptError):  # an architecture without an MLM head
            raise UsageError(f"backbone {source.name!r} has no {what}: {error}.") from error
        raise refused from error
    if loading["missing_keys"]:
        first = min(loading["missing_keys"])
        raise UsageError(f"backbone {source.name!r} in {source.folder} has no {what}: {first} is missing.")
    ready: PreTrainedModel = model.eval().to(runtime.device)
    return ready


def mlm_head(source: BackboneSource, runtime: Runtime) -> nn.Module:
    """A checkpoint's MLM head, (n, dim) -> (n, vocabulary); raises UsageError if there is none."""
    from zoo.engine.bert import mlm_head_of

    return mlm_head_of(masked_lm(source, runtime), source.name)


def mlm_head_rows(source: BackboneSource, runtime: Runtime) -> torch.Tensor:
    """Output embeddings of an MLM head (vocabulary, dim), float32; raises UsageError without a head."""
    weight: torch.Tensor = masked_lm(source, runtime).get_output_embeddings().weight.detach()
    return weight
