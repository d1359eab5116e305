"""A model is no larger than its weights: what a config.json states is held against the files before anything is built.

The transformers library builds whatever a configuration says and fills the weights that are missing, so one number of
nine digits beside a file of some kilobytes would take all memory before it is told.
"""

from __future__ import annotations

import contextlib
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import CorruptError
from zoo.files import read_mapping

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedConfig

# Below these a model is small enough to be built and judged by the library itself.
_MANY_WEIGHTS, _MANY_TENSORS, _MANY_BUFFERS = 2**25, 2000, 2**28
_MANY_NAMES = 100_000  # layers and labels, for which a configuration makes lists as soon as it is read
_PER_BYTE, _PER_BYTE_PACKED = 2, 4  # weights in a byte of a file: four bits each, or two where it states quantisation
_TENSORS = 4  # of a built model for one in the files, which may hold several in one (query, key and value)
_COUNTED = ("layer", "label", "depth", "block", "group", "expert")  # in the keys of what is built so many times


@dataclass(frozen=True)
class _Stored:
    """What the files hold: the number of tensors, the largest dimension among them, and the bytes."""

    tensors: int
    largest: int
    size: int


class _TooLargeError(Exception):
    """The model that is being built has more than its files can hold."""


def check_stated_counts(what: str, folder: Path) -> None:
    """Raise CorruptError if config.json states more layers or labels than the weights can have; nothing is built."""
    stored = _stored(folder)
    if stored is None:
        return
    most = max(_MANY_NAMES, stored.largest, stored.tensors)
    for key, value in _stated(folder):
        if value > most and any(word in key for word in _COUNTED[:3]):
            raise _refusal(what, folder, [(key, value)], stored)


def check_sizes(what: str, folder: Path, config: PreTrainedConfig) -> None:
    """Raise CorruptError if the model of a configuration is larger than its weights, which are not loaded.

    The model is built without memory for its weights, and no further than to the first that is too many.
    """
    import torch
    from transformers import AutoModel
    from transformers.initialization import no_init_weights

    stored = _stored(folder)
    if stored is None:
        return
    packed = getattr(config, "quantization_config", None) is not None
    most = _Count(
        weights=_MANY_WEIGHTS + stored.size * (_PER_BYTE_PACKED if packed else _PER_BYTE),
        tensors=_MANY_TENSORS + _TENSORS * stored.tensors,
        buffers=_MANY_BUFFERS + stored.size,
    )
    count = _Count()
    try:
        with _counting(count, most), no_init_weights(), torch.device("meta"):
            AutoModel.from_config(config, trust_remote_code=False)
    except _TooLargeError as error:
        raise _refusal(what, folder, _suspects(folder, stored, count), stored) from error
    except Exception:  # of any kind: what cannot be built is told where it is loaded
        return


@dataclass
class _Count:
    """Elements of the weights, their number, and the elements of buffers; and all dimensions that were met."""

    weights: int = 0
    tensors: int = 0
    buffers: int = 0
    dimensions: set[int] = field(default_factory=set)

    def add(self, tensor: torch.Tensor, most: _Count, *, buffer: bool) -> None:
        """Count one more tensor of a model; raises _TooLargeError where that is one too many."""
        self.dimensions |= set(tensor.shape)
        if buffer:
            self.buffers += tensor.numel()
        else:
            self.weights += tensor.numel()
            self.tensors += 1
        if self.weights > most.weights or self.tensors > most.tensors or self.buffers > most.buffers:
            raise _TooLargeError


@contextlib.contextmanager
def _counting(count: _Count, most: _Count) -> Iterator[None]:
    """Count what this thread builds inside the block."""
    from torch.nn.modules import module

    own = threading.get_ident()

    def weight(_: nn.Module, __: str, tensor: torch.Tensor | None) -> None:
        if tensor is not None and threading.get_ident() == own:
            count.add(tensor, most, buffer=False)

    def buffer(_: nn.Module, __: str, tensor: torch.Tensor | None) -> None:
        if tensor is not None and threading.get_ident() == own:
            count.add(tensor, most, buffer=True)

    handles = [
        module.register_module_parameter_registration_hook(weight),
        module.register_module_buffer_registration_hook(buffer),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _stored(folder: Path) -> _Stored | None:
    """Return what the weights of a folder hold, None without any; reads the headers of safetensors files alone."""
    from safetensors import safe_open

    safe, pickled = sorted(folder.glob("*.safetensors")), sorted(folder.glob("*.bin"))
    if not safe and not pickled:
        return None
    tensors, largest = 0, 0
    for path in safe:
        with safe_open(str(path), framework="np") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
        tensors += len(shapes)
        largest = max([largest, *(size for shape in shapes for size in shape)])
    for path in () if safe else pickled:  # the shapes in a pickle are known only when it is loaded
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                tensors += len(file.namelist())
        else:
            tensors += size // 256
        largest = max(largest, size)
    return _Stored(tensors, largest, sum(path.stat().st_size for path in safe or pickled))


def _stated(folder: Path) -> list[tuple[str, int]]:
    """Return the whole numbers of config.json; none of a file that is no JSON, which its load tells."""
    try:
        return list(_integers(read_mapping(folder / "config.json")))
    except CorruptError:
        return []


def _integers(value: object, key: str = "") -> Iterator[tuple[str, int]]:
    """Yield each whole number of a configuration with the key that it stands under."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _integers(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _integers(inner, key)
    elif type(value) is int:
        yield key, value


def _suspects(folder: Path, stored: _Stored, count: _Count) -> list[tuple[str, int]]:
    """Return the numbers of config.json that make a model too large: those beyond the files, else the largest."""
    stated = sorted(_stated(folder), key=lambda pair: -pair[1])
    built = [pair for pair in stated if pair[1] in count.dimensions]
    multiples = [
        pair for pair in stated if pair[1] > stored.largest and any(d and d % pair[1] == 0 for d in count.dimensions)
    ]
    counted = [pair for pair in stated if any(word in pair[0] for word in _COUNTED) and pair[1] > stored.tensors]
    return [*multiples, *counted] or (built or stated)[:3]


def _refusal(what: str, folder: Path, said: list[tuple[str, int]], stored: _Stored) -> CorruptError:
    sizes = ", ".join(f"{key[:50]} {value:,}"[:90] for key, value in said[:5])
    return CorruptError(
        f"{what}: {folder / 'config.json'} says {sizes}, a model that the weights beside it are too small for"
        f" ({stored.tensors:,} tensors, none longer than {stored.largest:,}; {stored.size:,} bytes): they do not belong"
        " together, so fetch the folder again or correct the configuration."
    )
