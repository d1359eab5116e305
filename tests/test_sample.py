"""The sample of slow tests follows changed code, not changed words."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sample import touched

CODE = '"""What it is."""\n\n\ndef f(x):\n    """Double."""\n    return 2 * x\n'


def test_methods_whose_code_changed_are_named_and_those_whose_words_changed_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "zoo" / "methods"
    folder.mkdir(parents=True)

    def commit(**texts: str) -> None:
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("add", "-A"), (*identity, "commit", "-q", "--allow-empty", "-m", "x")):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    assert touched(tmp_path) == set()
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    commit(worded=CODE, coded=CODE, steady=CODE, counted=CODE)
    commit(worded=CODE.replace("Double", "Twice"), coded=CODE.replace("2 *", "3 *"), counted=CODE + "\n")
    for number in range(9):
        commit(counted=CODE + f"\n# {number}\n")
    assert touched(tmp_path) == {"coded"}
    commit(counted=CODE)
    assert touched(tmp_path) == set(), "ten commits later"
