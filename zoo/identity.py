"""What identifies a method: its name and version, of a plugin also its file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.files import sha256_file
from zoo.plugins import METHODS

if TYPE_CHECKING:
    from zoo.encoder import Encoder

_NAMES_IN_KEYS = {
    "random": "zoo.methods.randomvectors.RandomVectors",
    "bag-of-words": "zoo.methods.bagofwords.BagOfWords",
    "cls": "zoo.methods.pooled.Cls",
    "avg": "zoo.methods.pooled.Average",
    "static": "zoo.methods.static.Static",
    "wordvectors": "zoo.methods.wordvectors.WordVectors",
    "sif": "zoo.methods.sif.SIF",
    "sif-tokens": "zoo.methods.sif_tokens.TokenSIF",
    "whitening": "zoo.methods.whitening.Whitening",
    "flow": "zoo.methods.flow.Flow",
    "simcse": "zoo.methods.simcse.SimCSE",
    "moco": "zoo.methods.moco.MoCo",
    "ptbert": "zoo.methods.ptbert.PTBert",
    "ct": "zoo.methods.ct.CT",
    "isbert": "zoo.methods.isbert.ISBert",
    "twoviews": "zoo.methods.twoviews.TwoViews",
    "sbert": "zoo.methods.sbert.SBERT",
    "burt": "zoo.methods.burt.BURT",
    "infersent": "zoo.methods.infersent.InferSent",
    "prompt": "zoo.methods.prompt.Prompt",
    "promptbert": "zoo.methods.promptbert.PromptBERT",
    "optiprompt": "zoo.methods.optiprompt.OptiPrompt",
    "pretrained": "zoo.methods.pretrained.Pretrained",
}
"""The names of these methods in keys. They were module paths once, and stay so that measured cells keep their keys.

No file is looked up by them any more. A method that is not listed here has its registered name in keys.
"""


def method_identity(cls: type[Encoder], *, file: bool = True) -> str:
    """Return a method's registered name and version for keys; with `file` also the sha256 of a plugin's file."""
    name = METHODS.name_of(cls)
    if name is not None and METHODS.is_builtin(name):
        known = _NAMES_IN_KEYS.get(name, name)
        return known if cls.version == 1 else f"{known}, version {cls.version}"
    place = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f"{name or 'object'}, version {cls.version}" + (f":{sha256_file(Path(place))}" if file and place else "")
