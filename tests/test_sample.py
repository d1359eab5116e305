"""The sample of slow tests has each kind, and follows changed code, not changed words."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sample import drawn, gone, quotes, touched

CODE = '"""What it is."""\n\n\ndef f(x):\n    """Double."""\n    return 2 * x\n'


class Clone:
    """A clone with files of `zoo/methods`, whose code is committed by name."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "zoo" / "methods"
        self.folder.mkdir(parents=True)

    def begin(self) -> None:
        subprocess.run(["git", "-C", str(self.root), "init", "-q"], check=True)

    def commit(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.folder / f"{name}.py").write_text(text)
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("add", "-A"), (*identity, "commit", "-q", "--allow-empty", "-m", "x")):
            subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True)


def test_methods_whose_code_changed_are_named_and_those_whose_words_changed_are_not(tmp_path: Path) -> None:
    clone = Clone(tmp_path)
    commit = clone.commit
    assert touched(tmp_path) == gone(tmp_path) == set()
    clone.begin()
    commit(worded=CODE, coded=CODE, steady=CODE, counted=CODE)
    commit(worded=CODE.replace("Double", "Twice"), coded=CODE.replace("2 *", "3 *"), counted=CODE + "\n")
    for number in range(9):
        commit(counted=CODE + f"\n# {number}\n")
    assert touched(tmp_path) == {"coded"}
    commit(counted=CODE)
    assert touched(tmp_path) == set(), "ten commits later"


def test_a_message_that_changed_is_gone_and_the_tests_that_quote_it_are_seen(tmp_path: Path) -> None:
    clone = Clone(tmp_path)
    clone.begin()
    message = 'raise ValueError(f"{x} has no weights (in its folder); fetch them")'
    raising = f'"""No message of a command."""\n\n\ndef f(x):\n    {message}\n'
    clone.commit(a=raising, b=CODE)
    for number in range(9):
        clone.commit(b=CODE + f"\n# {number}\n")
    assert gone(tmp_path) == set(), "nothing changed but lines"
    clone.commit(a=raising.replace("fetch", "load").replace("command", "user"))
    texts = gone(tmp_path)
    assert texts == {" has no weights (in its folder); fetch them"}
    test = 'def test():\n    with pytest.raises(ValueError, match="{}"):\n        f(1)\n'
    assert quotes(test.format(r"no weights \\(in its folder"), texts)
    assert not quotes(test.format("no weights there, fetch them"), texts) and not quotes(test.format("fetch"), texts)


def test_each_kind_has_a_case_unless_a_quick_case_shows_it() -> None:
    """Over sixteen weeks, functions with ten cases, with one method whose code changed, and with a quick case."""
    names = [f"a.py::f[{i}]" for i in range(10)] + [f"b.py::g[m:{i}]" for i in range(10)] + ["c.py::h", "c.py::i"]
    shown = [f"d.py::j[{i}]" for i in range(160)]
    for week in range(16):
        sample = drawn([*names, *shown], str(week), {"m"}, {"d.py::j"})
        assert any("f[" in name for name in sample) and any("c.py" in name for name in sample)
        assert {f"b.py::g[m:{i}]" for i in range(10)} <= sample
        assert len(sample & {*shown}) < 40
    assert not drawn(["d.py::j[2]"], "3", set(), {"d.py::j"}) and drawn(["d.py::j[2]"], "3", set())
