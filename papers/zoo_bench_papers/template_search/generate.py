"""Templates by a seq2seq model from words and their definitions (PromptBERT section 4.2, after LM-BFF).

The definition takes the place of [X] and the word that of [MASK]: a model pretrained to fill sentinels (T5's
<extra_id_0> ...) fills the gaps of `definition <0> word <1>` and `<0> word <1> definition`. A beam search keeps the
fillings of highest log-probability, averaged over all definitions (Gao et al. 2021, section 5.2: summed over examples).
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmark.data.readers.pairs import read_lines
from zoo.encoder import Runtime
from zoo.engine.backbone import BackboneSource, find_backbone
from zoo.engine.batching import autocast
from zoo.engine.model_folder import cannot_load, check_tokenizer_files, config_of, load_pretrained
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.progress import Bar

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FORMS = ("{definition} {first} {word} {second}", "{first} {word} {second} {definition}")
# Of both gaps together, sentinels included; longer fillings are dropped.
MAX_TOKENS = 16
# LM-BFF's width of the beam, even if fewer templates are wanted.
LEAST_WIDTH = 100
# More sequences in one decoder call would need much memory for their logits.
_ROWS = 128


Hypothesis = tuple[tuple[int, ...], float]
"""Tokens after <extra_id_0>, and their mean log-probability."""


@dataclass(frozen=True)
class Definition:
    word: str
    text: str


@dataclass(frozen=True)
class Generated:
    """A template, and its log-probability (natural logarithm), mean over definitions."""

    template: str
    log_probability: float


def read_definitions(path: Path, limit: int | None = None) -> list[Definition]:
    """Read `word<TAB>definition` lines, sample `limit` by a fixed seed; raises UsageError naming the line."""
    if not path.is_file():
        raise MissingError(f"--generate {path}: no such file; give lines of a word, a tab and its definition.")
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        word, _, text = (part.strip() for part in line.partition("\t"))
        if not word or not text or "\t" in text:
            raise UsageError(f"{path}:{number}: not a word, one tab and its definition.")
        rows.append(Definition(word, text))
    if not rows:
        raise UsageError(f"{path} has no definitions; give lines of a word, a tab and its definition.")
    return rows if limit is None or limit >= len(rows) else random.Random(0).sample(rows, limit)


def find_seq2seq(name: str, revision: str | None, runtime: Runtime) -> BackboneSource:
    try:
        return find_backbone(name, revision, allow_pickle=runtime.allow_pickle)
    except MissingError as error:
        raise MissingError(
            f"--seq2seq {name!r} is not here: neither a folder with its weights nor in the hub cache. Fetch it where"
            f" there is a network (`hf download {name}`) or give a folder; the greedy search needs none. ({error})"
        ) from error


def load_seq2seq(source: BackboneSource, runtime: Runtime) -> tuple[Any, Any]:
    """Load in float32; raises CorruptError on failure, UsageError without sentinel tokens."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        check_tokenizer_files(f"--seq2seq {source.name!r}", source.folder)
        model, loading = load_pretrained(
            AutoModelForSeq2SeqLM,
            source.folder,
            config=config_of(f"--seq2seq {source.name!r}", source.folder),
            dtype=torch.float32,
            output_loading_info=True,
            use_safetensors=None if runtime.allow_pickle else True,
        )
        tokenizer = load_pretrained(AutoTokenizer, source.folder)
    except ZooError:
        raise
    except Exception as error:
        # transformers raises many types; all mean that this checkpoint cannot be used.
        raise cannot_load(f"--seq2seq {source.name!r}", source.folder, error) from error
    if loading["missing_keys"]:
        missing = sorted(loading["missing_keys"])
        raise CorruptError(f"--seq2seq {source.name!r} in {source.folder} lacks {len(missing)} weights ({missing[0]}).")
    if not {f"<extra_id_{i}>" for i in range(3)} <= set(tokenizer.get_vocab()):
        raise UsageError(
            f"--seq2seq {source.name!r} has no sentinel tokens (<extra_id_0> ...); give a model that fills gaps (T5)."
        )
    return model.to(runtime.device).eval(), tokenizer


class GapFiller:
    """Beam search over fillings of the two gaps around a word, scored on all definitions at once."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, runtime: Runtime) -> None:
        self.model, self.tokenizer, self.runtime = model, tokenizer, runtime
        vocabulary = tokenizer.get_vocab()
        self.sentinels = [vocabulary[f"<extra_id_{i}>"] for i in range(3)]
        self.ends = {self.sentinels[2], int(model.config.eos_token_id)}
        self.start = [int(model.config.decoder_start_token_id), self.sentinels[0]]
        sentinels = [i for token, i in vocabulary.items() if token.startswith("<extra_id_")]
        self.words = torch.zeros(model.config.vocab_size, dtype=torch.bool, device=runtime.device)
        # The matrix has more rows than the vocabulary has tokens.
        self.words[list(vocabulary.values())] = True
        self.words[[*sentinels, *tokenizer.all_special_ids]] = False

    @torch.inference_mode()
    def fill(self, inputs: list[str], width: int, bar: Bar, done: int = 0) -> list[tuple[str, str, float]]:
        """Best `width` fillings (first gap, second gap, mean log-probability), best first."""
        batch = self.tokenizer(inputs, padding=True, return_tensors="pt").to(self.runtime.device)
        with autocast(self.runtime):
            encoded = self.model.get_encoder()(**batch).last_hidden_state
        going: list[Hypothesis] = [((), 0.0)]
        finished: list[Hypothesis] = []
        for step in range(MAX_TOKENS):
            longer: list[Hypothesis] = []
            for (tokens, value), values in zip(going, self._next(going, encoded, batch["attention_mask"]), strict=True):
                top = values.topk(min(width, int(values.isfinite().sum())))
                for token, more in zip(top.indices.tolist(), top.values.tolist(), strict=True):
                    (finished if token in self.ends else longer).append(((*tokens, token), value + more))
            going, finished = _best(longer, width), _best(finished, width)
            bar.update(done + step + 1)
            # Every token lowers the log-probability, so that open hypotheses can no longer enter the best.
            if len(finished) == width and going[0][1] <= finished[-1][1]:
                break
        results = []
        for tokens, value in finished:
            middle = tokens.index(self.sentinels[1])
            results.append((self._text(tokens[:middle]), self._text(tokens[middle + 1 : -1]), value))
        return results

    def _next(self, going: list[Hypothesis], encoded: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        """Mean log-probability of each next token (vocabulary,) of each hypothesis, -inf if forbidden."""
        from transformers.modeling_outputs import BaseModelOutput

        count, results = len(encoded), []
        size = max(_ROWS // count, 1)
        for begin in range(0, len(going), size):
            part = [tokens for tokens, _ in going[begin : begin + size]]
            ids = torch.tensor([[*self.start, *tokens] for tokens in part], device=encoded.device)
            with autocast(self.runtime):
                logits = self.model(
                    encoder_outputs=BaseModelOutput(last_hidden_state=encoded.repeat(len(part), 1, 1)),
                    attention_mask=mask.repeat(len(part), 1),
                    decoder_input_ids=ids.repeat_interleave(count, 0),
                    use_cache=False,
                ).logits[:, -1]
            mean = logits.float().log_softmax(-1).view(len(part), count, -1).mean(1)
            for tokens, values in zip(part, mean, strict=True):
                allowed = self.words.clone()
                allowed[list(self.ends) if self.sentinels[1] in tokens else self.sentinels[1]] = True
                results.append(values.masked_fill(~allowed, float("-inf")))
        return results

    def _text(self, tokens: tuple[int, ...]) -> str:
        # The pieces themselves mark blanks; decoding would drop the leading one.
        return "".join(self.tokenizer.convert_ids_to_tokens(list(tokens))).replace("▁", " ")


def _best(hypotheses: list[Hypothesis], width: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda item: -item[1])[:width]


def generate_templates(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    definitions: list[Definition],
    *,
    count: int,
    runtime: Runtime,
) -> list[Generated]:
    """At most `count` distinct templates, best first; some may be invalid."""
    filler = GapFiller(model, tokenizer, runtime)
    width = max(count // len(FORMS) + 1, LEAST_WIDTH)
    values: dict[str, float] = {}
    with runtime.progress.bar("generating templates, tokens", len(FORMS) * MAX_TOKENS) as bar:
        for number, form in enumerate(FORMS):
            inputs = [
                form.format(definition=d.text, word=d.word, first="<extra_id_0>", second="<extra_id_1>")
                for d in definitions
            ]
            for before, after, value in filler.fill(inputs, width, bar, number * MAX_TOKENS):
                filled = f"[X]{before} [MASK]{after}" if number == 0 else f"{before} [MASK]{after} [X]"
                template = re.sub(r"\s+", " ", filled).strip()
                values[template] = max(value, values.get(template, float("-inf")))
    ordered = sorted(values.items(), key=lambda item: -item[1])
    return [Generated(template, value) for template, value in ordered[:count]]
