"""What only data show of a plugin, `run` names; odd right ones pass `run` and `verify`; a key holds helper files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Cli

from tests.zoo.test_faulty_plugins import FITTED, MUTATIONS, mutated

pytestmark = pytest.mark.slow
OPTIONS = "--tasks pocket-words,pocket-pairs --precision fp32 --no-controls --seeds 1 --corpus pocket-text".split()
CHUNKS = "parts = [self.raw(texts[i:i+{0}]) for i in range(0, len(texts), {0})]"
OF_MANY = {
    "chunks come back out of order": f"{CHUNKS.format(210)}; return np.concatenate(parts[::-1] or [self.raw([])])",
    "the last chunk comes first": "v = self.raw(texts); return np.roll(v, 7, axis=0) if len(v) > 200 else v",
    "a mean of each large call": "v = self.raw(texts); return v - v.mean(axis=0) if len(v) > 200 else v",
    "a z-score of each large call": "v = self.raw(texts); return (v - v.mean(0)) / 9 if len(v) > 200 else v",
    "order by length in a large call": "return self.raw(sorted(texts, key=len) if len(texts) > 200 else texts)",
    "NaN for a word": "v = self.raw(texts); v[['cheese' in t.lower() for t in texts]] = np.nan; return v",
}
"""Faults of calls that are larger than those of `doctor`, and of texts that it does not have."""


def write(text: str, name: str) -> Path:
    path = Path("plugin.py")
    path.write_text(text.replace("NAME", name), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("what", OF_MANY)
def test_a_fault_that_only_data_show_fails_in_a_run(what: str, cli: Cli) -> None:
    path = write(mutated("method", {"old": "ENCODE", "new": OF_MANY[what]}), "of-many")
    assert cli("doctor", "of-many", "--plugin", path).code == 0
    done = cli("run", "--plugin", path, "--methods", "of-many", *OPTIONS)
    assert done.code == 1, done.out
    assert "encode() must give each text its own" in done.err or "have NaN or infinity" in done.err, done.err
    assert "(plugin.py:" in done.err and ", in encode" in done.err, done.err


def test_right_methods_that_look_odd_pass_run_and_verify(cli: Cli) -> None:
    """All in one file, so that one run and one verification measure them."""
    texts = []
    for number, mutation in enumerate(MUTATIONS["odd"]):
        text = mutated("odd", mutation).replace("NAME", f"odd-{number}")
        texts.append(text.replace("HashedRecipe", f"Recipe{number}").replace("class Hashed(", f"class Hashed{number}("))
    names = ",".join(f"odd-{number}" for number in range(len(texts)))
    path = write("\n".join(texts), "-")
    done = cli("run", "--plugin", path, "--methods", names, *OPTIONS)
    assert done.code == 0, done.err
    verified = cli("verify", "zoo-bench-results", "--plugin", path)
    assert verified.code == 0 and f"{2 * len(texts)} verified, 0 differs" in verified.out, verified.out


def test_an_edited_helper_of_a_trained_plugin_is_measured_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """And `run` prints the files of its key once."""
    monkeypatch.syspath_prepend(Path.cwd())
    helper = Path("helper_of_hashed.py")
    helper.write_text("SCALE = 1.0\n", encoding="utf-8")
    text = FITTED.replace("import zlib", "import zlib\nimport helper_of_hashed")
    path = write(
        text.replace("return self.raw(texts) -", "return helper_of_hashed.SCALE * self.raw(texts) -"), "helped"
    )
    words = ("run", "--plugin", path, "--methods", "helped", *OPTIONS)
    first = cli(*words)
    assert first.code == 0 and "2 cells measured, 0 kept" in first.err, first.err
    assert first.err.count("the key of helped holds plugin.py, helper_of_hashed.py") == 1
    assert "0 cells measured, 2 kept" in cli(*words).err
    helper.write_text("SCALE = 0.0\n", encoding="utf-8")
    assert "2 cells measured, 0 kept" in cli(*words).err


def test_a_save_that_fails_keeps_the_cells(cli: Cli) -> None:
    path = write(FITTED.replace("write_json(folder", "raise ValueError('no room'); write_json(folder"), "unsaved")
    done = cli("run", "--plugin", path, "--methods", "unsaved", *OPTIONS)
    assert done.code == 0 and "2 cells measured" in done.err, done.err
    assert "cannot be saved" in done.err and "plugin.py:" in done.err
    records = [json.loads(record.read_text(encoding="utf-8")) for record in Path().rglob("records/*/*.json")]
    assert [record["status"] for record in records] == ["ok", "ok"]
