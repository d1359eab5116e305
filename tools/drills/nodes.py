"""A Ray cluster of two nodes on this machine, one of them bad: the good one measures all, as one process would."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tools.drills.common import ROOT, Verdict, differences, results_of, workplace

_METHODS = "simcse:batch_size=16:eval_every=2,whitening:k=8,avg-last,cls"
_RUN = f"run --methods {_METHODS} --seeds 2 --backbone zoo-mini --tasks pocket-words --train-sentences 96 --no-controls"
_OBJECTS = 100_000_000
_NO_PACKAGE = """import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("benchmark", "zoo"):
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Blocked())
"""
# Each bad node: what is changed in which file of its copy of the code, and what is said of it.
BAD = {
    "package": ("", "", "", r"it has no package"),
    "version": ("benchmark/keys.py", "PROTOCOL_VERSION = 1", "PROTOCOL_VERSION = 2", "versions than those of the"),
    "weights": ("zoo/models/zoo-mini/model.safetensors", "", "", "left out: .*model.safetensors is damaged"),
    "data": ("benchmark/data/pocket/words.tsv", "8.0\tcigarette", "7.0\tcigarette", "left out: .*task pocket-words"),
    "worker": (
        "benchmark/run/runner.py",
        "        done = Outcome()\n        folder =",
        "        import os\n        os.kill(os.getpid(), 9)\n        done = Outcome()\n        folder =",
        "its worker was lost .WorkerCrashedError., 2 encoders in a row",
    ),
    "disk": (
        "benchmark/run/runner.py",
        "        folder.mkdir(parents=True, exist_ok=True)\n        lock",
        "        raise OSError(28, 'No space left on device')\n        lock",
        "No space left on device",
    ),
    # No file of a worker may be larger, as on a disk that is full when a training writes its weights.
    "full": (
        "benchmark/run/runner.py",
        "\nfrom zoo.progress",
        "\nimport resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))\nfrom zoo.progress",
        "node bad: simcse.*cannot write .*it is tried again",
    ),
    # The parent of a worker is what makes a machine a node.
    "gone": (
        "benchmark/run/runner.py",
        "        done = Outcome()\n        folder =",
        "        import os\n        os.getppid() > 1 and os.kill(os.getppid(), 9)\n"
        "        done = Outcome()\n        folder =",
        "left out: (it is gone|its worker was lost)",
    ),
    "library": (
        "benchmark/keys.py",
        "    return versions\n",
        "    return versions | {'torch': '2.10.0'}\n",
        r"node bad: it has torch 2\.10\.0 \(here .*\): last digits may differ",
    ),
    "comment": ("benchmark/keys.py", "from __future__", "# Another line.\nfrom __future__", ""),
}
# How often one is left out that is good, or good for some encoders.
NAMED = {"full": (0, 1), "library": (0,), "comment": (0,)}


def _environment(folder: Path, **more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    # Without the mode, a head asks for a token wherever a user's folder has one.
    ours = {"RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    return {**plain, **ours, **more}


@contextmanager
def ray_node(folder: Path, name: str, address: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start a node at the head's address, or the head itself on that port; it ends with the block."""
    head = name == "head"
    where = (
        ["--head", f"--port={address.rpartition(':')[2]}", f"--temp-dir={folder}", "--include-dashboard=false"]
        if head
        else [f"--address={address}"]
    )
    words = ["start", *where, "--block", f"--node-name={name}", "--num-cpus=1"]
    words += [f"--object-store-memory={_OBJECTS}", "--disable-usage-stats"]
    script = "from ray.scripts.scripts import main; main()"
    environment = _environment(folder, RAY_worker_niceness="0") | variables
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        env=environment,
        cwd=folder,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def free_address() -> str:
    """Return this machine's address with a free port."""
    util = importlib.import_module("ray.util")
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{util.get_node_ip_address()}:{free.getsockname()[1]}"


def wait_for(address: str, count: int) -> None:
    """Wait until a cluster has so many nodes."""
    script = (
        f"import ray, time; ray.init('{address}', logging_level='fatal')\n"
        f"while sum(node['Alive'] for node in ray.nodes()) < {count}: time.sleep(0.2)"
    )
    until = time.monotonic() + 300
    while time.monotonic() < until:
        # A client that came before the head was ready, as on a busy machine, may wait for ever.
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [sys.executable, "-c", script], env=_environment(Path.cwd()), capture_output=True, timeout=60
            )
            if done.returncode == 0:
                return
    raise TimeoutError(f"no cluster of {count} nodes at {address}")


def copy_of_the_code(folder: Path, file: str, old: str, new: str) -> Path:
    """Return a changed copy of what a node imports; without a file, what hides the package."""
    if not file:
        folder.mkdir(parents=True)
        (folder / "sitecustomize.py").write_text(_NO_PACKAGE, encoding="utf-8")
        return folder
    for part in ("zoo", "benchmark", "choose", "configs", "leaderboards/published.yaml"):
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(
            source, target, ignore=shutil.ignore_patterns("__pycache__")
        ) if source.is_dir() else shutil.copy(source, target)
    path = folder / file
    if not old:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(bytes(content))
    else:
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} has changed: {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


def command(out: Path, folder: Path, *more: str, **variables: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "benchmark", *_RUN.split(), "--results", str(out), *more]
    environment = _environment(folder, PYTHONPATH=str(ROOT), ZOO_BENCH_EMBEDDING_CACHE="0", **variables)
    return subprocess.Popen(
        words, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def nodes(count: int, only: Sequence[str] = ()) -> int:
    """Try the last `count` of the ways in which a node is bad, or those that are named."""
    verdict = Verdict("nodes")
    with workplace() as folder:
        alone = command(folder / "whole", folder, "--precision", "fp32", "--workers", "1")
        errors = alone.communicate()[1]
        if alone.returncode:
            verdict.fault(errors)
            return verdict.end()
        wanted = results_of(folder / "whole")
        for way, (file, old, new, words) in list(BAD.items())[-count:]:
            if only and way not in only:
                continue
            verdict.tried += 1
            code = copy_of_the_code(folder / f"code-{way}", file, old, new)
            address, temporary = free_address(), folder / way[:2]
            temporary.mkdir()
            with ExitStack() as stack:
                stack.enter_context(ray_node(temporary, "head", address, PYTHONPATH=str(ROOT)))
                wait_for(address, 1)
                stack.enter_context(ray_node(temporary, "bad", address, PYTHONPATH=str(code)))
                wait_for(address, 2)
                run = command(
                    folder / f"out-{way}", folder, "--precision", "fp32", "--executor", "ray", RAY_ADDRESS=address
                )
                try:
                    errors = run.communicate(timeout=300)[1]
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    errors = run.communicate()[1] + "it did not end"
            print(f"--- {way}\n{errors}", flush=True)
            gaps = differences(wanted, results_of(folder / f"out-{way}"))
            # Which bytes of code a worker had is information.
            gaps = [gap for gap in gaps if not re.search(r"/code(/digest)?: ", gap)]
            if run.returncode or gaps:
                verdict.fault(f"{way}: {run.returncode}, {gaps[:3]}")
            times = len(re.findall("node bad is left out", errors))
            if times not in NAMED.get(way, (1,)) or not re.search(words, errors) or "(raylet)" in errors:
                verdict.fault(f"{way}: named {times} times: {errors}")
            verdict.count(f"left out for {way}" if times else f"used with {way}")
    return verdict.end()


def cluster() -> int:
    """Interrupt a run on a cluster, kill the head under the same command, and let it end on a new cluster."""
    verdict = Verdict("cluster")
    more = ("--train-sentences", "512", "--precision", "fp32")
    with workplace() as folder:
        out = folder / "out"
        alone = command(folder / "whole", folder, *more, "--workers", "1")
        errors = alone.communicate()[1]
        if alone.returncode:
            verdict.fault(errors)
            return verdict.end()
        endings = {
            "interrupt": "stopped by signal 2; the same command goes on",
            "head": "the head of the Ray cluster .* does not answer",
            "nothing": "",
        }
        for what, words in endings.items():
            verdict.tried += 1
            address, temporary = free_address(), folder / what[:2]
            temporary.mkdir()
            with ray_node(temporary, "head", address, PYTHONPATH=str(ROOT)) as head:
                wait_for(address, 1)
                started = time.time()
                run = command(out, folder, *more, "--executor", "ray", RAY_ADDRESS=address)
                # The lines of the last command's trainings are older.
                while what != "nothing" and run.poll() is None:
                    logs = out.glob("encoders/simcse*/training/log.jsonl")
                    if any(path.stat().st_mtime > started for path in logs):
                        break
                    time.sleep(0.05)
                since = time.monotonic()
                if what == "interrupt":
                    run.send_signal(signal.SIGINT)
                elif what == "head":
                    for child in Path(f"/proc/{head.pid}/task/{head.pid}/children").read_text().split():
                        os.kill(int(child), signal.SIGKILL)
                errors = run.communicate(timeout=300)[1]
            print(f"--- {what}\n{errors}", flush=True)
            if (run.returncode == 0) != (what == "nothing") or not re.search(words, errors):
                verdict.fault(f"{what}: {run.returncode}: {errors}")
            verdict.count(f"{what} ({time.monotonic() - since:.0f} s to the end)")
        # To the bit, as a run in one process.
        if results_of(out) != results_of(folder / "whole"):
            verdict.fault(f"{differences(results_of(folder / 'whole'), results_of(out))[:3]}")
    return verdict.end()
