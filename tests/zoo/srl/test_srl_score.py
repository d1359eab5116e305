"""Our labeller against the real gold, and a score against counts made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.score_srl import read_conllu, score, table
from zoo.srl.parse import Frame
from zoo.srl.spacy_labeller import SpacyLabeller

# Two sentences of our own: "The big dog did not chase cats ." and "Home , she said it s ."
GOLD = """\
# sent_id = 1
1\tThe\tthe\tDET\tDT\t_\t3\tdet\t_\t_\t_\t_\t_\t_
2\tbig\tbig\tADJ\tJJ\t_\t3\tamod\t_\t_\tbig.01\t_\tV\t_
3\tdog\tdog\tNOUN\tNN\t_\t6\tnsubj\t_\t_\t_\t_\tARG1\tARG0
4\tdid\tdo\tAUX\tVBD\t_\t6\taux\t_\t_\tdo.01\tV\t_\t_
5\tnot\tnot\tPART\tRB\t_\t6\tadvmod\t_\t_\t_\t_\t_\tARGM-NEG
6\tchase\tchase\tVERB\tVB\t_\t0\troot\t_\t_\tchase.01\t_\t_\tV
6.1\tchase\tchase\tVERB\tVB\t_\t_\t_\t0:root\t_\t_\t_
7\tcats\tcat\tNOUN\tNNS\t_\t6\tobj\t_\t_\t_\t_\t_\tARG1
8\t.\t.\tPUNCT\t.\t_\t6\tpunct\t_\t_\t_\t_\t_\t_

# sent_id = 2
# propbank = no-up
1\tHello\thello\tINTJ\tUH\t_\t0\troot\t_\t_\t_

# sent_id = 3
1\tHome\thome\tNOUN\tNN\t_\t4\tobj\t_\t_\t_\tARG1\t_
2\t,\t,\tPUNCT\t,\t_\t4\tpunct\t_\t_\t_\t_\t_
3\tshe\tshe\tPRON\tPRP\t_\t4\tnsubj\t_\t_\t_\tARG0\t_
4\tsaid\tsay\tVERB\tVBD\t_\t0\troot\t_\t_\tsay.01\tV\t_
5\tit\tit\tPRON\tPRP\t_\t4\tobj\t_\t_\t_\tARG1\tARG1
6\ts\tbe\tVERB\tVBZ\t_\t4\tccomp\t_\t_\tbe.02\t_\tV
"""
FIRST = ("The", "big", "dog", "did", "not", "chase", "cats", ".")
SECOND = ("Home", ",", "she", "said", "it", "s")


@pytest.fixture
def gold_file(tmp_path: Path) -> Path:
    path = tmp_path / "gold.conllu"
    path.write_text(GOLD, encoding="utf-8")
    return path


def test_scores_are_those_counted_by_hand(gold_file: Path) -> None:
    gold, _ = read_conllu(gold_file)
    labelled = [
        [
            Frame(FIRST, (3,), arg0=(2,)),  # no gold predicate
            Frame(FIRST, (5,), arg0=(0, 1, 2), arg1=(7,), neg=(4,)),  # ARG1 wrong
        ],
        [Frame(SECOND, (3,), arg0=(), arg1=(5,), neg=(1,))],  # ARG1 and negation wrong, no ARG0, "s" missed
    ]
    counts = score(gold, labelled)
    assert {name: (c.right, c.labelled, c.gold) for name, c in counts.items()} == {
        "predicate": (2, 3, 3),
        "ARG0": (1, 2, 2),
        "ARG0 given": (1, 1, 2),
        "ARG1": (0, 2, 3),
        "ARG1 given": (0, 2, 2),
        "ARGM-NEG": (1, 2, 1),
        "ARGM-NEG given": (1, 2, 1),
    }
    assert "| ARG0 | 50.0 | 50.0 | 50.0 | 2 |" in table(counts)


@pytest.mark.slow
def test_the_quality_on_real_gold_holds(data_dir: Path, labeller: SpacyLabeller) -> None:
    path = data_dir / "srl" / "UP_English-EWT" / "en_ewt-up-dev.conllu"
    if not path.is_file():
        pytest.skip(f"no gold roles at {path}")
    gold = read_conllu(path)[0][:300]
    counts = score(gold, labeller.label([sentence.words for sentence in gold]))
    f1 = {name: round(100 * count.f1, 1) for name, count in counts.items()}
    floors = {"predicate": 95.4, "ARG0": 83.5, "ARG1": 83.3, "ARGM-NEG": 90.0}  # measured: 96.4, 84.5, 84.3, 91.1
    assert {name: f1[name] for name, floor in floors.items() if f1[name] < floor} == {}
