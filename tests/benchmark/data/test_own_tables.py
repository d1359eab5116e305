"""Tables as tools write them: each is answered as it is meant, or asked with what is meant as the first answer."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from benchmark.data.readers.roles import Question
from benchmark.data.readers.tables import read

ROWS = range(60)
# The forms of a column: three kinds of texts, a score, 0 or 1, words, classes, ids, dates, counts, chats.
CELLS: dict[str, Any] = {
    "t": lambda i: f"how does number {i} work",
    "u": lambda i: f"number {i} works like that",
    "v": lambda i: f"nothing here is about {i % 7} or {i}",
    "s": lambda i: i % 6 / 5,
    "b": lambda i: i % 2,
    "y": lambda i: ("yes", "no")[i % 2],
    "l": lambda i: ("entailment", "neutral", "contradiction")[i % 3],
    "c": lambda i: ("red", "blue", "old", "new")[i % 4],
    "w": lambda i: ("low", "mid", "high")[i % 3],
    "i": lambda i: 1000 + i,
    "h": lambda i: f"A{i:04}Z",
    "d": lambda i: f"2026-03-{1 + i % 28:02}",
    "k": lambda i: "accept",
    "n": lambda i: i * 7 % 18,
    "m": lambda i: [
        {"role": "user", "content": f"how does {i} work"},
        {"role": "assistant", "content": f"{i} works so"},
    ],
    "f": lambda i: [{"from": "human", "value": f"how does {i} work"}, {"from": "gpt", "value": f"{i} works so"}],
    "p": lambda i: [f"number {i} works like that"],
    "g": lambda i: [f"it is {i}", f"it was {i}"],
}
# The columns with their forms, and the kind; or the first answer of the question, and of what kind it is.
TABLES = [
    ("id:i annotator:c text1:t text2:u similar:y lead_time:n", "binary pairs"),
    ("text:t label:c _input_hash:i _task_hash:i answer:k", "labelled texts"),
    ("id:i text:t label:c Comments:v", "labelled texts"),
    ("HITId:h WorkerId:h Input.sentence1:t Input.sentence2:u Answer.score:s", "scored pairs"),
    ("id:i text:t intent:c", "labelled texts"),
    ("Nr.:i Satz A:t Satz B:u Score:s Notes:c", "scored pairs"),
    ("Ticket 1:t Ticket 2:u duplicate:y date:d", "binary pairs"),
    ("Question:t Answer:u", "pairs"),
    ("query:t document:u relevance:n", "judged pairs"),
    ("qid:h query:t docid:h passage:u is_selected:b", "judged pairs"),
    ("id:i qid1:i qid2:i question1:t question2:u is_duplicate:b", "binary pairs"),
    ("premise:t hypothesis:u label:l", "labelled pairs"),
    ("gold_label:l sentence1:t sentence2:u pairID:h", "labelled pairs"),
    ("anchor:t positive:u negative:v", "triples"),
    ("query:t pos:p neg:g", "triples"),
    ("query_id:h query:t positive_passages:p negative_passages:g", "triples"),
    ("sent0:t sent1:u hard_neg:v", "triples"),
    ("tweet:t label:c", "labelled texts"),
    ("messages:m", "pairs"),
    ("conversations:f", "pairs"),
    ("idx:i sentence:t", "texts"),
    ("title:t text:u url:h", "texts"),
    ("query:t title:u position:n clicks:n", ("query,title,clicks", "retrieval")),
    ("search term:t product:u rating:s", ("search term,product,rating", "score")),
    ("ticket a:t ticket b:u same issue:b", ("ticket a,ticket b,same issue", "binary")),
    ("Anfrage:t Kategorie:c", ("Anfrage,Kategorie", "label")),
    ("mine:t yours:u verdict:y", ("mine,yours,verdict", "binary")),
    ("prompt:t response:u", ("prompt,response", "retrieval")),
    ("frage:t antwort:u", ("frage,antwort", "retrieval")),
    ("text:t team:c floor:w", ("text,floor", "label")),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "meant"), TABLES, ids=lambda value: str(value)[:60])
def test_a_table_of_a_tool_is_answered_or_asked_rightly(columns: str, meant: Any) -> None:
    forms = dict(re.findall(r"(\S.*?):(\w)(?: |$)", columns))
    frame = pd.DataFrame({name: [CELLS[form](i) for i in ROWS] for name, form in forms.items()})
    if isinstance(meant, str):
        assert read(frame).kind == meant
        return
    with pytest.raises(Question) as asked:
        read(frame)
    assert (asked.value.readings[0].columns, asked.value.readings[0].kind) == meant
