"""The methods of zoo-bench: sentence encoders behind one interface, and their training.

The import needs no torch; names below load at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zoo.api import create, encode, fit, load, save
    from zoo.encoder import Corpus, DevScore, Encoder, FitReport, Run, Runtime, Start, Traits
    from zoo.plugins import register_method

_LAZY = {
    "Corpus": "zoo.encoder",
    "DevScore": "zoo.encoder",
    "Encoder": "zoo.encoder",
    "FitReport": "zoo.encoder",
    "Run": "zoo.encoder",
    "Runtime": "zoo.encoder",
    "Start": "zoo.encoder",
    "Traits": "zoo.encoder",
    "create": "zoo.api",
    "encode": "zoo.api",
    "fit": "zoo.api",
    "load": "zoo.api",
    "register_method": "zoo.plugins",
    "save": "zoo.api",
}

__all__ = [
    "Corpus",
    "DevScore",
    "Encoder",
    "FitReport",
    "Run",
    "Runtime",
    "Start",
    "Traits",
    "__version__",
    "create",
    "encode",
    "fit",
    "load",
    "register_method",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")
