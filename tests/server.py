"""Commands of Python in forks of one process that has imported what takes long: half a second of processor, not five.

`run` does what `subprocess.run` does for `[sys.executable, "-m", MODULE, ...]` or `-c CODE`. Only libraries are
imported before the fork: the project's modules read the command's own environment and files. A test of imports, of
threads, of signals or of what a real start does has a real subprocess.
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
    atexit.register(lambda: (process.kill(), process.wait()))
    return near


def run(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Do what `subprocess.run` does with `capture_output=True, text=True`; whoever stops waiting kills the command."""
    environment, base = {"OMP_NUM_THREADS": "1", **(os.environ if env is None else env)}, _base()
    for name in environment:
        if name.startswith(READ_AT_IMPORT) and environment[name] != base.get(name):
            raise ValueError(f"{name} is read as a library is imported: a command with its own is a subprocess")
    connection = _connection()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3)]
        streams[0].write(stdin)
        streams[0].seek(0)
        request = json.dumps([words[1:], str(cwd or Path.cwd()), environment]).encode()
        socket.send_fds(connection, [request], [stream.fileno() for stream in streams])
        child = int(connection.recv(64))
        try:
            code = int(connection.recv(64))
        except BaseException:
            os.kill(child, signal.SIGKILL)
            connection.recv(64)
            raise
        for stream in streams:
            stream.seek(0)
        done = subprocess.CompletedProcess(list(words), code, streams[1].read(), streams[2].read())
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
