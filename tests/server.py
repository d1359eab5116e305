"""Commands of Python in forks of one process that has imported what takes long: half a second of processor, not five.

`run` and `Command` do what `subprocess` does for `[sys.executable, "-m", MODULE, ...]` or `-c CODE`. Only libraries
are imported before the fork: the project's modules read the command's own environment and files. A test of
imports, of threads or of what a real start does has a real subprocess.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES = (
    "torch transformers.models.bert.modeling_bert pandas pyarrow.parquet scipy.stats sklearn.linear_model pytest"
)
READ_AT_IMPORT = ("OMP_", "MKL_", "ONEDNN_", "HF_", "CUDA_", "LD_", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING")


def _base() -> dict[str, str]:
    """Return the environment of the server; a process with threads could not fork."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}


@functools.cache
def _connection() -> socket.socket:
    """Start the server of this process, which ends with it."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen([sys.executable, __file__, str(far.fileno())], pass_fds=[far.fileno()], env=_base())
    far.close()
    atexit.register(lambda: (near.close(), process.wait()))
    return near


class Command:
    """A command under way, of which there is one at a time; `wait` returns its output."""

    def __init__(
        self, words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> None:
        environment, base = {"OMP_NUM_THREADS": "1", **(os.environ if env is None else env)}, _base()
        for name in environment:
            if name.startswith(READ_AT_IMPORT) and environment[name] != base.get(name):
                raise ValueError(f"{name} is read as a library is imported: a command with its own is a subprocess")
        self.words, self.connection = list(words), _connection()
        self.streams = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(3)]  # noqa: SIM115
        self.streams[0].write(stdin)
        self.streams[0].seek(0)
        request = json.dumps([self.words[1:], str(cwd or Path.cwd()), environment]).encode()
        socket.send_fds(self.connection, [request], [stream.fileno() for stream in self.streams])
        self.pid = int(self.connection.recv(64))

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end; whoever stops waiting kills the command."""
        try:
            code = int(self.connection.recv(64))
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)
            self.connection.recv(64)
            raise
        for stream in self.streams:
            stream.seek(0)
        _, out, err = [stream.read() for stream in self.streams]
        return subprocess.CompletedProcess(self.words, code, out, err)


def run(words: Sequence[str], *, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """Do what `subprocess.run` does with `capture_output=True, text=True`; `more` is of Command."""
    done = Command(words, **more).wait()
    if check:
        done.check_returncode()
    return done


def _serve(connection: socket.socket) -> list[str]:
    """Fork for each request; in the fork, return its words, with its streams, folder and environment in place."""
    while True:
        data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not data:
            os._exit(0)
        child = os.fork()
        if child == 0:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            words, folder, environment = json.loads(data)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:0] = [name for name in environment.get("PYTHONPATH", "").split(os.pathsep) if name]
            return words
        for stream in streams:
            os.close(stream)
        connection.send(str(child).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _execute(kind: str, *words: str) -> None:
    """Do what the interpreter does with these arguments."""
    sys.argv = list(words)
    sys.path.insert(0, "" if kind == "-c" else str(Path.cwd()))
    if kind == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[0], sys.modules["__main__"] = "-c", types.ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), vars(sys.modules["__main__"]))


def _leave(code: int) -> None:
    """End the fork; to take down thousands of modules, as the interpreter does, would take five seconds."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # the command has closed it
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    del sys.path[0]  # the tests' folder
    codes = [0]
    atexit.register(lambda: _leave(codes[-1]))  # the first that is registered is the last that is called
    for library in LIBRARIES.split():
        importlib.import_module(library)
    gc.freeze()  # a collection in a fork would write to, so copy, all of this memory
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        _execute(*request)
    except BaseException as error:
        asked = error.code if isinstance(error, SystemExit) else 1
        codes.append(asked if isinstance(asked, int) else int(asked is not None))
        raise
