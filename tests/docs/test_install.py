"""The README's installation, resolved by pip against indexes that the test makes: no network is asked."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
COMMANDS = re.findall(r"pip install (?:--retries 0 )?-c constraints\.txt [^&`\n]*\.(?=[\s`&])", README)
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
NEEDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def wheel(index: Path, name: str, version: str, *needs: str) -> Path:
    """Write a wheel without code, and a link to it into its page of an index."""
    page, stem = index / re.sub(r"[-_.]+", "-", name).lower(), f"{name.replace('-', '_')}-{version}"
    page.mkdir(parents=True, exist_ok=True)
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {n}" for n in needs),
    ]
    with zipfile.ZipFile(page / f"{stem}-py3-none-any.whl", "w") as file:
        file.writestr(f"{stem}.dist-info/METADATA", "\n".join(metadata) + "\n")
        file.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{stem}.dist-info/RECORD", "")
    names = sorted(path.name for path in page.glob("*.whl"))
    (page / "index.html").write_text("".join(f'<a href="{n}">{n}</a>' for n in names), encoding="utf-8")
    return page / f"{stem}-py3-none-any.whl"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """An index of all packages, whose torch brings CUDA's; torch's own of CPU wheels, with few versions of others."""
    folder = tmp_path_factory.mktemp("indexes")
    everything, cpu = folder / "all", folder / "cpu"
    names = {re.split(r"[<>=\[ ]", need)[0] for need in NEEDS} - {"torch"}
    for name in names:
        wheel(everything, name, {k.lower().replace("_", "-"): v for k, v in PINS.items()}[name.replace("_", "-")])
    wheel(everything, "nvidia-cudnn", "9.0")
    wheel(everything, "torch", PINS["torch"], "filelock", "typing-extensions", "nvidia-cudnn")
    wheel(cpu, "torch", f"{PINS['torch']}+cpu", "filelock", "typing-extensions")
    wheel(cpu, "filelock", "3.0")
    return everything, cpu, wheel(folder / "project", "zoo-bench", "0.1.0", *NEEDS)


def resolved(command: str, index: Path, cpu: Path, project: Path) -> dict[str, str]:
    """Return the versions that a command of the README would install where an index is pip's own."""
    words = [str(project) if word == "." else word for word in shlex.split(command.replace(CPU_INDEX, cpu.as_uri()))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    asked = subprocess.run(
        [sys.executable, "-m", *words, "--dry-run", "--ignore-installed", "--quiet", "--report", "-"],
        cwd=ROOT,
        env={**environment, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index.as_uri()},
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 0, asked.stderr
    parts = [entry["metadata"] for entry in json.loads(asked.stdout)["install"]]
    return {part["name"]: part["version"] for part in parts}


def test_the_line_for_a_cpu_takes_torchs_cpu_build_and_all_else_as_pinned(indexes: tuple[Path, Path, Path]) -> None:
    (line,) = [command for command in COMMANDS if CPU_INDEX in command]
    versions = resolved(line, *indexes)
    assert versions.pop("torch") == f"{PINS['torch']}+cpu" and "nvidia-cudnn" not in versions
    assert versions["filelock"] == PINS["filelock"]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_line_resolves_where_a_mirror_is_all_there_is(
    command: str, indexes: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    everything, _, project = indexes
    (tmp_path / "empty").mkdir()
    versions = resolved(command, everything, tmp_path / "empty", project)
    assert versions["torch"] == PINS["torch"] and "nvidia-cudnn" in versions


def test_another_index_in_place_of_pips_own_has_no_pinned_packages(indexes: tuple[Path, Path, Path]) -> None:
    """Why the README's line adds the index of CPU wheels: as the only one it lacks what the constraints pin."""
    (line,) = [command for command in COMMANDS if CPU_INDEX in command]
    with pytest.raises(AssertionError, match="ResolutionImpossible"):
        resolved(line.replace("--extra-index-url", "--index-url"), *indexes)
