"""Decides the role of each column of a table: text, value, or unused with a reason; in doubt it asks.

The user's statement comes first, then the header, then the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

# The names of a role's columns, singular, without case and signs; of texts the first that is there counts.
from benchmark.data.readers.column import (
    ANY_TEXT,
    ASKS,
    FEW,
    FIRST,
    NUMBERED,
    PRINTED,
    QUERIES,
    SECOND,
    Column,
    Roles,
    plain,
)
from benchmark.data.readers.labels import CLEARLY, Take, rise, says_unlike
from zoo.errors import UsageError


@dataclass
class Decision:
    path: Path
    columns: list[Column]
    take: Take
    chosen: list[Column] | None = None

    def roles(self) -> Roles:
        """Decide each column's role; raises UsageError in doubt, with the commands to answer."""
        roles = self._of_person(self.chosen) if self.chosen else self._of_table()
        used = (*roles.texts, roles.value, *roles.negatives)
        unused = {column.name or f"column {column.place + 1}": "not named" if self.chosen else column.looks[1] or
                  "not needed" for column in self.columns if column not in used}  # fmt: skip
        return Roles(roles.texts, roles.value, roles.negatives, unused)

    def _of_person(self, chosen: list[Column]) -> Roles:
        last, several = chosen[-1], len(chosen) > 2
        values = [column for column in chosen if column.value] or [
            column for column in chosen if column.look in ("number", "words", "aside")
        ]
        if self.take == "labels":
            values = [last]
        elif not values and (several or self.take in ("all", "measured")):
            values = [column for column in (last, *chosen) if column.look in ("class", "constant")][:1]
        value = values[-1] if values and len(chosen) > 1 and self.take != "texts" else None
        value = None if self.take == "judged" and not several else value
        texts = [column for column in chosen if column is not value]
        if self.take == "texts":
            return Roles(texts)
        several = len(texts) > (3 if value is None else 2) and not all(text.is_negative for text in texts[2:])
        self._ask(several, f"{len(texts)} of the columns are texts")
        return Roles(texts[:2], value, texts[2:])

    def _stated(self) -> tuple[Column | None, Column | None, bool]:
        able = [column for column in self.columns if column.can_be_text]
        for names in NUMBERED:
            pair = [column for name in names for column in able if plain(column.name) == name]
            if len(pair) == 2:
                return pair[0], pair[1], True
        first = next((column for name in FIRST for column in able if column.key == name), None)
        fits = (column for name in SECOND for column in able if column.key == name and column is not first)
        return first, next(fits, None), False

    def _of_table(self) -> Roles:
        first, second, numbered = self._stated()
        stated = [column for column in (first, second) if column is not None]
        negatives = [column for column in self.columns if column.is_negative and column.can_be_text]
        others = [column for column in self.columns if column.look in ("text", "list") and not column.value and
                  column not in (*stated, *negatives) and not any(map(column.is_form_of, stated))]  # fmt: skip
        if self.take == "texts":
            alone = self.columns if len(self.columns) == 1 else []
            texts = sorted({*stated, *negatives, *others}, key=lambda column: column.place) or alone
            self._ask(not texts or any(column.is_list for column in texts), "nothing shows which are texts")
            return Roles(texts)
        values = any(column.value for column in self.columns)
        if self.take == "labels" and first is not None and len(stated) == len(others) == 1 and not values:
            # The kind is known, so the other text is the label.
            return Roles([first], others[0])
        value = self._value([*stated, *others, *negatives])
        short = [column for column in self.columns if column.look == "class" and column not in (*stated, value)]
        if self.take in ("judged", "binary", "scores") and len(stated) + len(others) == len(short) == 1:
            # The kind is known, so a second text is there.
            others, short = [*others, *short], []
        texts = [*stated, *others]
        for column in self.columns:
            misread = column.states_text and not column.can_be_text and column.look != "empty"
            self._ask(misread and len(texts) < 2, f"{column.name} has {column.looks[1] or 'values'}, not texts")
        self._ask(any(column.is_list for column in texts), "it has lists of texts")
        self._ask(not texts, "nothing shows which are texts")
        if len(texts) == 1 and not negatives:
            return self._labelled(texts[0], value, short)
        if not self.columns[0].named and len(texts) == 3 and value is None:
            return Roles(texts[:2], None, texts[2:])
        self._ask(len(texts) != 2, f"{', '.join(column.name for column in texts)} are texts")
        texts = [texts[1], texts[0]] if first is None and second is not None else texts
        self._pair(Roles(texts, value, negatives), short, stated, numbered)
        return Roles(texts, None if negatives else value, negatives)

    def _value(self, texts: list[Column]) -> Column | None:
        rest = [column for column in self.columns if column not in texts]
        stated = [column for column in rest if column.value]
        stated = [column for column in stated if column.look != "constant"] or stated
        values = [column for column in rest if column.look in ("number", "words")]
        # Without a header, a value stands beside its texts.
        places = {column.place for column in texts if not column.named}
        beside = [column for column in values if {column.place - 1, column.place + 1} & places]
        if self.take != "judged":
            values += [column for column in rest if column.look == "class" and not column.may_be_text]
        values = stated or (beside if len(beside) == 1 else values)
        if any(column.is_negative for column in texts):
            # Positives and negatives say what is relevant, and what describes the lists is no value.
            values = [column for column in values if column.value and not column.was_list]
        if len(values) > 1 and len(texts) == 2:
            first, second = (text.cells for text in texts)
            shown = [
                column for column in values if column.look == "number" and rise(first, second, column.cells) > CLEARLY
            ]
            values = shown if len(shown) == 1 else values
        self._ask(len(values) > 1, f"{' and '.join(column.name for column in values)} may be values")
        return values[0] if values else None

    def _labelled(self, text: Column, value: Column | None, short: list[Column]) -> Roles:
        phrases = [column for column in short if column.may_be_text]
        asks, unclear = text.key in ASKS, " may be a text or a class"
        if value is None and len(phrases) == 1 and phrases[0].levels < QUERIES and not asks:
            value, phrases = phrases[0], []
        stated = value is not None and value.value
        self._ask(phrases and not (stated and text.states_text), phrases[0].name + unclear if phrases else "")
        if value is not None and stated:
            doubtful = short and not text.states_text and text.named and value.levels == 2
            self._ask(doubtful, short[0].name + unclear if short else "")
        elif value is not None and self.take != "labels":
            self._ask(asks, value.name + unclear)
            many = value.look == "number" and 3 * value.levels > len(value.cells)
            self._ask(many, f"{value.name} has {value.levels} values")
        return Roles([text], value)

    def _pair(self, roles: Roles, short: list[Column], stated: list[Column], numbered: bool) -> None:
        (first, second), value = roles.texts, roles.value
        clear = numbered or not first.named or (first.key in FIRST and first.key not in ANY_TEXT) or (
            second.key in SECOND and second.key not in ANY_TEXT)  # fmt: skip
        judged = self.take == "judged" or (self.take == "measured" and (value is None or roles.judged))
        if roles.negatives:
            self._ask(value, f"{value.name} would be left unused" if value else "")
        else:
            phrases = [column for column in short if column.may_be_text and (value is None or len(stated) < 2)]
            self._ask(phrases, f"{phrases[0].name} would be left unused" if phrases else "")
        if value is not None and first.named and not value.value:
            unread = value.states_text or (value.look == "class" and value.levels > 2)
            self._ask(unread, f"{value.name} would be left unused")
            inferred = {*value.cells} - {""} == {*"012"} and self.take not in ("judged", "scores")
            self._ask(inferred, f"{value.name}: a score or a label of inference")
        if value is not None and first.named and self.take == "measured":
            doubtful = roles.repeated or (roles.asks and not value.value)
            doubtful = doubtful and value.levels > 2 and value.is_any and not roles.judged
            self._ask(doubtful, f"is {value.name} a grade of relevance or a similarity")
        if value is not None and first.named and not value.value and len(value.cells) >= FEW:
            unclear = value.look == "number" and self.take in ("all", "measured") and not says_unlike(value.name)
            unclear = unclear and abs(rise(first.cells, second.cells, value.cells)) < CLEARLY
            self._ask(unclear, f"nothing shows that {value.name} is a score")
        self._ask(judged and not clear, "which of the texts asks for the other")

    def _ask(self, doubtful: object, why: str) -> None:
        """Raise UsageError, with the commands to answer, for a doubt."""
        if not doubtful:
            return
        names = ", ".join(column.name for column in self.columns)
        kinds = self.take not in ("all", "texts")
        commands = dict.fromkeys(f"--columns '{','.join(typed)}'{kind * kinds}" for typed, kind in self._answers())
        answers = " or ".join([*commands][:PRINTED])
        remedy = f"Name them: {answers}." if answers else "Give texts; a folder of BEIR has ids beside them."
        raise UsageError(f"{self.path}: what are its columns {names}? ({why}) {remedy}")

    def _answers(self) -> list[tuple[list[str], str]]:
        first, second, _ = self._stated()
        rest = sorted(self.columns, key=lambda column: (column is not first, column is not second))
        texts = [column for column in rest if column in (first, second) or (not column.value and
                 (column.look in ("text", "list") or column.is_negative))]  # fmt: skip
        likely = [column for column in texts if column.look in ("text", "list")]
        texts += [column for column in rest if column.look == "class" and column not in texts and not column.value]
        values = [column for column in rest if column.value or column.look in ("number", "words", "class")]
        values.sort(key=lambda column: not column.value)
        negatives = [column for column in texts if column.is_negative and column.can_be_text]
        pairs = sorted(permutations(texts, 2), key=lambda pair: (pair[0] is not first, pair[1] is not second))
        stated = any(value.value for value in values)
        thirds = [negatives] if negatives else [[] if stated else [text] for text in likely]
        trios = [(a, b, *third) for a, b in pairs for third in thirds if third and len({a, b, *third} & {*likely}) > 2]
        answers = [([column.name for column in trio], " --kind retrieval") for trio in trios]
        alone = [pair for pair in pairs if {*pair} <= {*likely}] or pairs
        answers += [([a.name, b.name], " --kind retrieval") for a, b in alone if not stated]
        for number, pair in enumerate(pairs):
            names = [column.name for column in pair]
            for value in values:
                if value in pair or (value.look == "class" and value.levels != 2):
                    continue
                words = sorted({*value.cells} - {""}) if value.look == "class" else []
                typed = [f"{value.name}={word}" for word in words] or [value.name]
                typed += [f"-{value.name}"] * says_unlike(value.name)
                usual = "binary" if value.levels == 2 else "score"
                for kind in {"measured": (usual, "retrieval"), "judged": ("retrieval",)}.get(self.take, (usual,)):
                    if kind == "retrieval" or pair[::-1] not in pairs[:number]:
                        answers += [([*names, name], f" --kind {kind}") for name in typed]
        labelled = texts if self.take in ("measured", "labels") else []
        choices = [(text, value) for text in labelled for value in values if value is not text]
        labels = [([text.name, value.name], " --kind label") for text, value in choices]
        return labels + answers if len(likely) == 1 else answers + labels
