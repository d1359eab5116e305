"""Low-rank adapters (LoRA, Hu et al. 2022), put into a model's layers in place and saved in peft's own two files."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from zoo.errors import CorruptError, UsageError
from zoo.extras import optional
from zoo.files import read_mapping, write_json
from zoo.tensors import read_tensors, write_tensors

Model = TypeVar("Model", bound=nn.Module)

# Of peft's names, which are those of the model inside its own class.
_PREFIX = "base_model.model."


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """W x becomes W x + alpha / rank * B A dropout(x)."""

    rank: int
    alpha: int
    dropout: float = 0.0
    # names of linear layers, such as q_proj; none: every linear layer but the output's
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0 or not 0 <= self.dropout < 1:
            raise ValueError("rank and alpha must be above 0, and the adapters' dropout from 0 to below 1")


def check_peft() -> None:
    optional("peft", "peft", "training by adapters (LoRA)")


def has_adapters(model: nn.Module) -> bool:
    return hasattr(model, "peft_config")


def with_adapters(model: Model, settings: LoraSettings) -> Model:
    """Add adapters in place, the only weights with gradients; B = 0. Raises MissingError without peft, UsageError."""
    check_peft()
    from peft import LoraConfig

    return _injected(
        model,
        LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=list(settings.targets) or "all-linear",
            task_type="FEATURE_EXTRACTION",
        ),
    )


def _injected(model: Model, config: Any) -> Model:
    from peft import inject_adapter_in_model

    try:
        inject_adapter_in_model(config, model)
    except ValueError as error:
        raise UsageError(f"adapters do not fit {type(model).__name__}: {str(error).splitlines()[0]}") from error
    for weight in model.parameters():
        weight.at_rest = not weight.requires_grad  # type: ignore[attr-defined]
    return model.train(model.training)


def save_adapters(model: nn.Module, folder: Path) -> None:
    from peft import get_peft_model_state_dict

    configs: Any = model.peft_config
    config = configs["default"].to_dict()
    name = getattr(model, "name_or_path", None)
    config |= {"target_modules": sorted(config["target_modules"]), "base_model_name_or_path": name}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "adapter_config.json", {**config, "inference_mode": True})
    tensors = {f"{_PREFIX}{name}": tensor for name, tensor in get_peft_model_state_dict(model).items()}
    write_tensors(folder / "adapter_model.safetensors", tensors, {"format": "pt"})


def load_adapters(model: Model, folder: Path) -> Model:
    """Add saved adapters in place; raises CorruptError, MissingError."""
    check_peft()
    from peft import LoraConfig, set_peft_model_state_dict

    tensors, _ = read_tensors(folder / "adapter_model.safetensors")
    config = LoraConfig(**{**read_mapping(folder / "adapter_config.json"), "inference_mode": False})
    state = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}
    result: Any = set_peft_model_state_dict(_injected(model, config), state)
    missing = [name for name in result.missing_keys if "lora_" in name]
    if missing or result.unexpected_keys:
        other = [*missing, *result.unexpected_keys][0]
        raise CorruptError(f"{folder / 'adapter_model.safetensors'} does not fit its model ({other}); train again.")
    return model


def merged(model: Model) -> Model:
    """Copy with the adapters added to plain layers' weights."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    plain = copy.deepcopy(model)
    if not has_adapters(plain):
        return plain
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            parent, _, last = name.rpartition(".")
            setattr(plain.get_submodule(parent), last, layer.get_base_layer())
    del plain.peft_config
    return plain.requires_grad_(True)
