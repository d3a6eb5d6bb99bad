"""Python processes that have imported a framework when they begin: ``run("torch", "program.py")``.

For a test whose program needs a process of its own. A server imports the framework once for each process of pytest, and
forks for each program, which spares it the import and, at its end, the second that an interpreter takes to clear its
modules. The program has its own ``__main__``, arguments, folder, environment, filters of warnings and standard streams,
and nothing else is imported: backprobe is not. A test of how Python itself starts, ends or is interrupted takes
``subprocess`` or ``commands.python``.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import linecache
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from pathlib import Path

_servers = {}


class Started:
    """A program that runs; ``ended`` waits for it."""

    def __init__(self, framework, words, cwd, env, timeout, stdout):
        self.words, self.files = words, [tempfile.TemporaryFile() for _ in range(2)]
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(timeout)
        self.connection.connect(_server(framework))
        asked = {"words": [str(word) for word in words], "cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ)}
        streams = [file.fileno() for file in self.files]
        socket.send_fds(self.connection, [b"\n"], [stdout or streams[0], streams[1]])
        self.connection.sendall(json.dumps(asked).encode() + b"\n")

    def ended(self):
        """Its status and output, as ``subprocess.run`` gives them."""
        with self.connection, self.files[0], self.files[1]:
            said = self.connection.recv(100)
            printed = [_read(file) for file in self.files]
        return subprocess.CompletedProcess(self.words, int(said), *printed)

    def kill(self):
        """End it, and don't wait."""
        for one in (self.connection, *self.files):
            one.close()


def _read(file):
    file.seek(0)
    return file.read().decode()


def start(framework, *words, cwd=None, env=None, timeout=120, stdout=None):
    """Start ``python WORDS`` where the framework is imported: -W filters, then a file, -m or -c.

    ``stdout`` is the descriptor that it writes to in place of what ``ended`` reads.
    """
    return Started(framework, words, cwd, env, timeout, stdout)


def run(framework, *words, **settings):
    """What becomes of ``python WORDS``, which begins with the framework imported."""
    return start(framework, *words, **settings).ended()


def _server(framework):
    # The address of the server of this process: one that a process was forked with is its parent's.
    key = framework, os.getpid()
    if key not in _servers:
        address = tempfile.mkdtemp() + "/server"
        words = [sys.executable, __file__, framework, address]
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdout.readline() == b"ready\n"
        atexit.register(_close, server, os.getpid())
        _servers[key] = address
    return _servers[key]


def _close(server, owner):
    if os.getpid() == owner:
        server.communicate()


def _serve(framework, address):
    # Until the process that started it ends: a child handles each connection.
    for name in framework.split():
        importlib.import_module(name)
    gc.freeze()  # a child that collects garbage looks through its own objects alone
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([listening, sys.stdin], [], [], 1)[0]):
            if ready:
                connection, _ = listening.accept()
                if os.fork() == 0:
                    listening.close()
                    _handle(connection)
                connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    Path(address).unlink()
    Path(address).parent.rmdir()


def _handle(connection):
    # Fork the program, and say how it ended. Where the other side is gone, so is the program.
    _, streams, _, _ = socket.recv_fds(connection, 1, 2)
    asked = json.loads(connection.makefile().readline())
    if program := os.fork():
        ready = select.select([connection, os.pidfd_open(program)], [], [])[0]
        if connection in ready:
            os.kill(program, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(str(status).encode())
        os._exit(0)
    connection.close()
    for descriptor, stream in zip((0, 1, 2), (os.open(os.devnull, os.O_RDONLY), *streams), strict=True):
        os.dup2(stream, descriptor)
    sys.stdin = open(0, closefd=False)  # the server's has read ahead
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    os._exit(_ended(asked["words"]))


def _ended(words):
    # The status of the program, after all that a Python does at its end but for clearing its modules.
    try:
        _program(words)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 -- it is shown as Python shows it
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{type(error).__name__}: {error}", file=sys.stderr)
        status = 120
    sys.stderr.flush()
    return status


def _program(words):
    while words[0] == "-W":
        warnings.simplefilter(words[1]) if ":" not in words[1] else warnings._setoption(words[1])
        words = words[2:]
    sys.path[0] = "" if words[0] in ("-c", "-m") else str(Path(words[0]).parent.resolve())
    sys.path[1:1] = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part not in ("", *sys.path)]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if words[0] == "-m":
        sys.path[0], sys.argv = os.getcwd(), ["-m", *words[2:]]
        runpy._run_module_as_main(words[1])  # as Python itself does
        return
    if words[0] == "-c":
        sys.argv, code = ["-c", *words[2:]], compile(words[1], "<string>", "exec", dont_inherit=True)
        if sys.version_info >= (3, 13):  # from where on tracebacks show the lines of a text, too
            lines = words[1].splitlines(keepends=True)
            linecache.cache["<string>"] = (len(words[1]), None, lines, "<string>")
    else:
        sys.argv, main.__file__ = words, os.path.abspath(words[0])
        code = compile(Path(words[0]).read_bytes(), main.__file__, "exec", dont_inherit=True)
    exec(code, vars(main))


if __name__ == "__main__":
    sys.path[0] = ""
    _serve(*sys.argv[1:])
