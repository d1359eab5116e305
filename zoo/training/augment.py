"""Discrete augmentations of a sentence's token ids, for contrastive views: seeded and composable.

In a recipe: NAME:RATE or NAME:RATE:UNIT ("token" by default), NAME:COUNTxRATE for spans, a chain with "+":
"duplicate:0.2:word", "span-delete:5x0.05", "delete:0.1+reorder:0.2", "reorder-repo". N is the number of units.

    exchange      permutes the units of max(2, int(rate N)) random places; no place keeps its own
                  (PT-BERT section 4.4, reorder, rate not stated)
    reorder       permutes the units of int(rate N) random places; a place may keep its own, so a short sentence
                  often does not change
    duplicate     samples a unit int(rate N) times and adds a copy beside it (PT-BERT section 4.4, rate not stated)
    delete        removes int(rate N) units, but not all (SimCSE table 1, PT-BERT section 4.4)
    repeat        doubles U{0..max(2, int(rate N))} different units (ESimCSE; 0.32 for BERT in its run.sh)
    crop          keeps a contiguous share of 1 - rate, at least one unit (SimCSE table 1)
    span-delete   removes COUNT disjoint spans of int(COUNT rate N) units in all, not all units (CLEAR: 5x0.05)
    span-reorder  exchanges COUNT disjoint pairs of spans, of int(2 COUNT rate N) units in all (CLEAR: 5x0.05)
    substitute    replaces int(rate N) tokens by any of their nearest tokens; unit "word": only words of one token
                  (CLEAR: 0.3)

Special tokens are no units and keep their places. The "-repo" kinds follow released code: lengths include the special
tokens, and PT-BERT's three kinds may change [SEP]:

    reorder-repo    permutes everything but [CLS]; no rate (PT-BERT "shuffle")
    duplicate-repo  doubles int(rate length) times a random position, not 0, of the grown row (PT-BERT "dup")
    delete-repo     masks int(rate length) random positions, not 0, in attention; tokens stay (PT-BERT "mask")
    repeat-repo     as repeat, with other bounds, at most 9; with unit "word" never the last (ESimCSE "bpe", "word")
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.engine.backbone import Backbone
from zoo.errors import UsageError, did_you_mean
from zoo.training.token_kinds import PIECE, SPECIAL, neighbours_of, token_kinds

Unit = Literal["token", "word"]
Ids = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]
Generator = np.random.Generator

_NO_NEIGHBOURS = "augmentation 'substitute' needs the nearest tokens of the vocabulary (see nearest_tokens)."
_TEXT = re.compile(r"[^:]+:(?:(?P<count>\d{1,4})x)?(?P<rate>-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?::(?P<unit>.+))?")
# It separates these draws from the data order, which is seeded by (seed, epoch).
_STREAM = 0x617567


def generator(seed: int, step: int) -> Generator:
    """Random generator of a step's batch, a function of (seed, step) alone, so that runs resume."""
    return np.random.default_rng([seed, step, _STREAM])


@dataclass(frozen=True, slots=True)
class Tokens:
    ids: Ids
    special: Flags
    starts: Flags
    keep: Flags

    def take(self, positions: Ids) -> Tokens:
        return Tokens(self.ids[positions], self.special[positions], self.starts[positions], self.keep[positions])

    def runs(self, unit: Unit) -> tuple[Ids, Ids, Ids]:
        """First position and length (m,) of each unit or special token; indices (N,) of the units."""
        if unit == "token":
            return np.arange(len(self.ids)), np.ones(len(self.ids), np.int64), np.flatnonzero(~self.special)
        starts = self.starts | self.special
        # RoBERTa's first word has no Ġ.
        starts[:1], starts[1:] = True, starts[1:] | self.special[:-1]
        ends = np.append(np.flatnonzero(starts), len(starts))
        return ends[:-1], np.diff(ends), np.flatnonzero(~self.special[ends[:-1]])


@dataclass(frozen=True)
class Augmentation:
    """An augmentation with its rate, on tokens or words; `str()` gives its syntax.

    Raises:
        UsageError: an unknown kind, or an impossible rate or unit.

    Examples:
        >>> ids, special = np.array([101, 7, 8, 102]), np.array([True, False, False, True])
        >>> view, mask = Augmentation("delete", 0.5)(ids, special, ~special, generator(0, 0))
        >>> len(view), mask.tolist()
        (3, [True, True, True])
    """

    name: str
    rate: float
    unit: Unit = "token"
    count: int = 1
    neighbours: NDArray[np.int32] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            meant = did_you_mean(self.name, KINDS)
            raise UsageError(f"unknown augmentation {self.name!r}.{meant} Known: {', '.join(KINDS)}.")
        kind, where = KINDS[self.name], f"augmentation {self.name!r}"
        if not 0 <= self.rate <= 1:
            raise UsageError(f"{where}: the rate must be between 0 and 1, not {self.rate}.")
        if not kind.rated and self.rate != 1:
            raise UsageError(f"{where} permutes everything and takes no rate.")
        if self.unit not in kind.units:
            units, meant = " or ".join(map(repr, kind.units)), did_you_mean(self.unit, kind.units)
            raise UsageError(f"{where}: the unit must be {units}, not {self.unit!r}.{meant}")
        if self.count < 1 or (self.count > 1 and not kind.spans):
            raise UsageError(f"{where} cannot have {self.count} spans.")
        if self.count * kind.spans * self.rate > 1 + 1e-9:
            raise UsageError(f"{where}: {self.count * kind.spans} spans of {self.rate} are more than the sentence.")

    def __str__(self) -> str:
        kind = KINDS[self.name]
        rate = f":{self.count}x{self.rate!r}" if kind.spans else f":{self.rate!r}" if kind.rated else ""
        return self.name + rate + (":word" if self.unit == "word" else "")

    def __call__(self, ids: Ids, special: Flags, starts: Flags, rng: Generator) -> tuple[Ids, Flags]:
        """Return ids and attention mask (m,), all True except after "delete-repo"."""
        return sequence((self,), ids, special, starts, rng)


Chain = tuple[Augmentation, ...]


def sequence(chain: Chain, ids: Ids, special: Flags, starts: Flags, rng: Generator) -> tuple[Ids, Flags]:
    """Apply a chain in turn; return ids and mask (m,)."""
    tokens = Tokens(ids, special, starts, np.ones(len(ids), np.bool_))
    for how in chain:
        tokens = KINDS[how.name].view(tokens, how, rng)
    return tokens.ids, tokens.keep


# Functions that return how often each of n >= 1 units comes in the view (n,).


def _chosen(n: int, among: int, size: int, copies: int, rng: Generator) -> Ids:
    result = np.ones(n, np.int64)
    result[rng.permutation(among)[:size]] = copies
    return result


def _duplicate(n: int, how: Augmentation, rng: Generator) -> Ids:
    return 1 + np.bincount(rng.integers(n, size=int(how.rate * n)), minlength=n)


def _delete(n: int, how: Augmentation, rng: Generator) -> Ids:
    return _chosen(n, n, min(int(how.rate * n), n - 1), 0, rng)


def _repeat(n: int, how: Augmentation, rng: Generator) -> Ids:
    return _chosen(n, n, int(rng.integers(min(n, max(2, int(how.rate * n))) + 1)), 2, rng)


def _crop(n: int, how: Augmentation, rng: Generator) -> Ids:
    length = max(n - int(how.rate * n), 1)
    place = np.arange(n) - rng.integers(n - length + 1)
    return ((place >= 0) & (place < length)).astype(np.int64)


def _span_delete(n: int, how: Augmentation, rng: Generator) -> Ids:
    result = np.ones(n, np.int64)
    total = min(int(how.count * how.rate * n), n - 1)
    for start, end in _place(n, total, min(how.count, total), rng):
        result[start:end] = 0
    return result


def _place(n: int, total: int, spans: int, rng: Generator) -> list[tuple[int, int]]:
    if not spans:
        return []
    lengths = rng.permutation(total // spans + (np.arange(spans) < total % spans))
    # If each span counts as one item among the remaining units, a placement is a choice of item positions.
    ends = np.sort(rng.permutation(n - total + spans)[:spans]) + 1 + np.cumsum(lengths - 1)
    return list(zip((ends - lengths).tolist(), ends.tolist(), strict=True))


# Functions that return a permutation (n,) of n >= 1 units.


def _reorder(n: int, how: Augmentation, rng: Generator) -> Ids:
    order = np.arange(n)
    chosen = rng.permutation(n)[: int(how.rate * n)]
    order[np.sort(chosen)] = chosen
    return order


def _exchange(n: int, how: Augmentation, rng: Generator) -> Ids:
    order = np.arange(n)
    chosen = rng.permutation(n)[: max(2, int(how.rate * n))]
    # One cycle, so that no place keeps its unit.
    order[chosen] = np.roll(chosen, 1)
    return order


def _span_reorder(n: int, how: Augmentation, rng: Generator) -> Ids:
    total = int(2 * how.count * how.rate * n)
    spans = _place(n, total, 2 * min(how.count, total // 2), rng)
    partner = list(range(len(spans)))
    for a, b in rng.permutation(len(spans)).reshape(-1, 2).tolist():
        partner[a], partner[b] = b, a
    order: list[int] = []
    done = 0
    for (start, end), other in zip(spans, partner, strict=True):
        order += [*range(done, start), *range(*spans[other])]
        done = end
    return np.array(order + list(range(done, n)))


Plan = Callable[[int, Augmentation, Generator], Ids]
View = Callable[[Tokens, Augmentation, Generator], Tokens]


def _on_units(plan: Plan, gives: Literal["copies", "order"]) -> View:
    def view(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
        first, lengths, units = tokens.runs(how.unit)
        order = np.arange(len(first))
        if len(units) and gives == "order":
            order[units] = units[plan(len(units), how, rng)]
        elif len(units):
            copies = np.ones(len(first), np.int64)
            copies[units] = plan(len(units), how, rng)
            order = np.repeat(order, copies)
        lengths = lengths[order]
        ends = lengths.cumsum()
        return tokens.take(np.repeat(first[order] - ends + lengths, lengths) + np.arange(lengths.sum()))

    return view


def _substitute(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
    if how.neighbours is None:
        raise UsageError(_NO_NEIGHBOURS)
    first, lengths, units = tokens.runs(how.unit)
    places = first[units[lengths[units] == 1]]
    places = places[how.neighbours[tokens.ids[places], 0] >= 0]
    places = rng.permutation(places)[: int(how.rate * len(units))]
    choices = how.neighbours[tokens.ids[places]]
    ids = tokens.ids.copy()
    ids[places] = choices[np.arange(len(places)), rng.integers((choices >= 0).sum(1))]
    return dataclasses.replace(tokens, ids=ids)


def _reorder_repo(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
    order = np.arange(len(tokens.ids))
    rng.shuffle(order[1:])
    return tokens.take(order)


def _duplicate_repo(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
    n, order = len(tokens.ids), list(range(len(tokens.ids)))
    for place in rng.integers(1, np.arange(n, n + int(how.rate * n))).tolist() if n > 1 else []:
        order.insert(place, order[place])
    return tokens.take(np.array(order, np.int64))


def _delete_repo(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
    n, keep = len(tokens.ids), tokens.keep.copy()
    keep[rng.integers(1, n, size=int(how.rate * n)) if n > 1 else []] = False
    return dataclasses.replace(tokens, keep=keep)


def _repeat_repo(tokens: Tokens, how: Augmentation, rng: Generator) -> Tokens:
    def copies(n: int, how: Augmentation, rng: Generator) -> Ids:
        if how.unit == "word":
            return _chosen(n, n - 1, int(rng.integers(min(10, n, max(2, int(how.rate * n))))), 2, rng)
        # The released code fails if this exceeds n.
        below = min(10, int(how.rate * len(tokens.ids)), n + 1)
        return _chosen(n, n, int(rng.integers(max(below, 1))), 2, rng)

    return _on_units(copies, "copies")(tokens, how, rng)


@dataclass(frozen=True)
class _Kind:
    view: View
    units: tuple[Unit, ...] = ("token", "word")
    spans: int = 0
    rated: bool = True


KINDS: dict[str, _Kind] = {
    "exchange": _Kind(_on_units(_exchange, "order")),
    "reorder": _Kind(_on_units(_reorder, "order")),
    "duplicate": _Kind(_on_units(_duplicate, "copies")),
    "delete": _Kind(_on_units(_delete, "copies")),
    "repeat": _Kind(_on_units(_repeat, "copies")),
    "crop": _Kind(_on_units(_crop, "copies")),
    "span-delete": _Kind(_on_units(_span_delete, "copies"), spans=1),
    "span-reorder": _Kind(_on_units(_span_reorder, "order"), spans=2),
    "substitute": _Kind(_substitute),
    "reorder-repo": _Kind(_reorder_repo, units=("token",), rated=False),
    "duplicate-repo": _Kind(_duplicate_repo, units=("token",)),
    "delete-repo": _Kind(_delete_repo, units=("token",)),
    "repeat-repo": _Kind(_repeat_repo),
}


def parse_augmentation(text: str, neighbours: NDArray[np.int32] | None = None) -> Chain:
    """Parse an augmentation or a chain (syntax: see the module); raises UsageError."""
    return tuple(_parse_one(part.strip(), neighbours) for part in text.split("+"))


def _parse_one(text: str, neighbours: NDArray[np.int32] | None) -> Augmentation:
    name = text.split(":")[0]
    if name not in KINDS or (name == text and not KINDS[name].rated):
        return Augmentation(name, 1.0)
    match = _TEXT.fullmatch(text)
    if match is None:
        example = f"{name}:{'5x0.05' if KINDS[name].spans else '0.2'}"
        raise UsageError(f"augmentation {text!r} is not NAME:RATE or NAME:RATE:UNIT; write, for example, {example!r}.")
    unit: Any = match["unit"] or "token"
    return Augmentation(name, float(match["rate"]), unit, int(match["count"] or 1), neighbours)


def choose_chain(chains: Sequence[Chain], keeps: int, rng: Generator) -> Chain:
    """Choose among the chains and `keeps` empty chains; PT-BERT's code has 2 (0 with --no_keep)."""
    index = int(rng.integers(keeps + len(chains)))
    return () if index < keeps else chains[index - keeps]


@dataclass(frozen=True)
class Augmenter:
    chains: tuple[Chain, ...]
    kinds: NDArray[np.int8]
    pad_id: int
    keeps: int = 0
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.keeps < 0 or self.keeps + len(self.chains) == 0:
            raise UsageError(f"{len(self.chains)} augmentations and {self.keeps} keeps leave nothing to choose from.")
        if any(how.name == "substitute" and how.neighbours is None for chain in self.chains for how in chain):
            raise UsageError(_NO_NEIGHBOURS)

    def view(self, ids: Ids, rng: Generator) -> tuple[Ids, Flags]:
        kinds = self.kinds[ids]
        ids, keep = sequence(choose_chain(self.chains, self.keeps, rng), ids, kinds == SPECIAL, kinds != PIECE, rng)
        if self.max_length is not None and len(ids) > self.max_length:
            places = np.arange(self.max_length)
            if self.kinds[ids[-1]] == SPECIAL:
                places[-1:] = len(ids) - 1
            ids, keep = ids[places], keep[places]
        return ids, keep

    def batch(self, rows: Sequence[Ids], rng: Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return padded ids and attention mask (len(rows), longest), int64."""
        views = [self.view(row, rng) for row in rows]
        shape = len(views), max((len(ids) for ids, _ in views), default=1) or 1
        input_ids, mask = np.full(shape, self.pad_id, np.int64), np.zeros(shape, np.int64)
        for i, (ids, keep) in enumerate(views):
            input_ids[i, : len(ids)], mask[i, : len(ids)] = ids, keep
        return torch.from_numpy(input_ids), torch.from_numpy(mask)


def make_augmenter(backbone: Backbone, augment: tuple[str, ...], keeps: int) -> Augmenter:
    """The augmenter for a backbone's vocabulary; raises UsageError for an unknown augmentation."""
    kinds = token_kinds(backbone.tokenizer)
    neighbours = neighbours_of(backbone, kinds) if any("substitute" in text for text in augment) else None
    chains = tuple(parse_augmentation(text, neighbours) for text in augment)
    return Augmenter(chains, kinds, backbone.pad_id, keeps, backbone.max_length)
