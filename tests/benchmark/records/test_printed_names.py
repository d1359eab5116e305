"""Row names as they are printed: no path of a machine, no two alike, and commands take them back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes import Cli
from page_fakes import method_records

from benchmark.records.folder import Records
from benchmark.records.names import printed_names, short_name
from benchmark.records.query import label, rows_named
from benchmark.report.leaderboard import make_leaderboard
from zoo.errors import UsageError

FOLDERS = ("pretrained:model=/data/run-a/MiniLM", "pretrained:model=/data/run-b/MiniLM")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("simcse", "simcse"),
        ("simcse:epochs=2:pooler=mean", "simcse:epochs=2:pooler=mean"),
        ("pretrained:model=/home/user/models/all-MiniLM-L6-v2", "pretrained:all-MiniLM-L6-v2"),
        ("pretrained:model=/home/user/models/all-MiniLM-L6-v2/:pooling=cls", "pretrained:all-MiniLM-L6-v2:pooling=cls"),
        ("pretrained:model='../my models/a'", "pretrained:a"),
        ("pretrained:model=C:\\models\\x:pooling=cls", "pretrained:x:pooling=cls"),
        ("pretrained:model=sentence-transformers/all-MiniLM-L6-v2", "pretrained:all-MiniLM-L6-v2"),
        ("pretrained:model=zoo-mini", "pretrained:zoo-mini"),
        ("pretrained:model=/runs/simcse/checkpoint-500", "pretrained:simcse/checkpoint-500"),
        (
            "pretrained:model=/hub/models--org--bge-small/snapshots/5c38ec7c405ec4b44b94cc5a9bb96e7",
            "pretrained:bge-small",
        ),
        ("wordvectors:path=/data/glove.6B.300d.txt", "wordvectors:path=glove.6B.300d.txt"),
        ("simcse:backbone=google-bert/bert-base-uncased", "simcse:backbone=bert-base-uncased"),
        ("mine:table=~/secret/place/table.json:n=3", "mine:table=table.json:n=3"),
        ("prompt:template='[X] and/or [MASK]'", "prompt:template='[X] and/or [MASK]'"),
        ("pretrained:model=/", "pretrained:/"),
    ],
)
def test_a_path_is_its_last_part(name: str, shown: str) -> None:
    """Settings stay as they are; a template with a stroke in it is no path."""
    assert short_name(name) == shown


def test_no_two_names_are_printed_alike() -> None:
    """More of the path where that tells them apart, else a digest; what is a name already keeps it."""
    assert list(printed_names(FOLDERS).values()) == ["pretrained:run-a/MiniLM", "pretrained:run-b/MiniLM"]
    same_ends = ["pretrained:model=/x/1/2/3", "pretrained:model=/y/1/2/3", "pretrained:model=3", "pretrained:3"]
    shown = printed_names(same_ends)
    assert shown["pretrained:3"] == "pretrained:3" and len(set(shown.values())) == 4
    assert all("/x" not in one and "/y" not in one for one in shown.values())
    assert printed_names(reversed(same_ends)) == shown


def test_tables_have_the_printed_names_and_keep_the_rows_apart(tmp_path: Path) -> None:
    """Two folders of one name are two rows; no file but what repeats a command has a path; a label ends in the key."""
    store = Records(tmp_path)
    for level, name in ((0.4, FOLDERS[0]), (0.5, FOLDERS[1]), (0.6, "pretrained:model=/other/place/large")):
        for record in method_records(name, level):
            store.write(record)
    board = make_leaderboard(tmp_path)
    (table,), files = board.tables, board.files
    names = [row.name for row in table.rows]
    assert names == ["pretrained:large", "pretrained:run-b/MiniLM", "pretrained:run-a/MiniLM"]
    assert [row.identity for row in table.rows][1:] == [FOLDERS[1], FOLDERS[0]]
    for name, text in files.items():
        without = re.sub(r"--methods '?pretrained:model=[\w/-]+", "", text.replace("\\u0027", "'"))
        assert "/data/" not in without and "/other/" not in without, name
    stored = store.all()
    for asked in (FOLDERS[0], names[2]):
        (row,) = rows_named(stored, asked, tmp_path)
        assert {record["method"]["name"] for record in row} == {FOLDERS[0]}
        assert rows_named(stored, label(row), tmp_path) == [row]
    assert len(rows_named(stored, "pretrained:run-*", tmp_path)) == 2
    with pytest.raises(UsageError, match=r"There: pretrained:large, pretrained:run-a/MiniLM"):
        rows_named(stored, "pretrained:run", tmp_path)


def test_run_says_what_it_needs_in_place_of_a_shortened_name(tmp_path: Path, cli: Cli) -> None:
    answer = cli("run", "--methods", "pretrained:all-MiniLM-L6-v2", "--results", tmp_path)
    assert answer.code == 2 and "pretrained:model=FOLDER_OR_HUB_ID" in answer.err
