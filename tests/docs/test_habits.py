"""What stands beside the code and no other test reads: workflows, pre-commit, the environments of tox."""

import configparser
import re
from pathlib import Path

import pytest
import yaml

import zoo

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_and_forms_are_yaml_and_name_environments_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {"jobs", "body"} & yaml.safe_load(text).keys()
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for name in re.findall(r"tox -e (\w+)", text):
        assert f"testenv:{name}" in tox, name


def test_the_release_reads_the_version_of_the_package() -> None:
    """The line of release.yml, run here."""
    (line,) = re.findall(r"python -c '(.+)'\)\"", (ROOT / ".github" / "workflows" / "release.yml").read_text())
    shown: list[str] = []
    exec(line.replace("pathlib.Path(", f"pathlib.Path({str(ROOT)!r}, "), {"print": shown.append})
    assert shown == [zoo.__version__]


def test_pre_commit_has_the_ruff_of_the_tests() -> None:
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (pinned,) = re.findall(r"(?m)^ruff==(.+)$", (ROOT / "constraints.txt").read_text())
    assert hooks["rev"] == f"v{pinned}"
