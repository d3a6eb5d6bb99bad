"""The kernels that run the cells of pages: copies of one process that has imported PyTorch once.

To start a Python and import PyTorch takes longer than the cells of most pages. Here a server imports what most pages
import, and each page that imports PyTorch is run by a fork of it, as fresh as it was: nothing of one page is in
another. Other pages have a Python of their own, since what backprobe does depends on the frameworks that are imported.

Jupyter starts a kernel by the command of its kernelspec, which is this file: it asks the server for a fork, and lives
as long as that.
"""

import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ADDRESS = "BACKPROBE_DOCS_KERNELS"  # in the environment while a page is read that a fork is to run
IMPORTED = ("torch", "torch._dynamo", "ipykernel.kernelapp")
SPECIFICATION = {
    "argv": [sys.executable, "-I", "-S", __file__, "ask", "{connection_file}"],
    "display_name": "Python 3",
    "language": "python",
}


def ask(connection_file):
    """Have a kernel run, and end when it has ended."""
    address = os.environ.pop(ADDRESS, "")
    if not address:
        os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", "-f", connection_file])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Jupyter sends it before it asks a kernel to end
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        request = {"file": connection_file, "folder": os.getcwd(), "environment": dict(os.environ)}
        server.sendall(json.dumps(request).encode() + b"\n")
        server.recv(1)  # nothing comes: it is closed when the kernel ends


def serve(address):
    """Fork a kernel for each that asks, until standard input is closed: then all of them end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()  # before the imports: who asks now waits
        for module in IMPORTED:
            importlib.import_module(module)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no kernel is waited for
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            asked, _ = listener.accept()
            if not os.fork():
                listener.close()
                become_kernel(json.loads(asked.makefile().readline()))
            asked.close()
    os.killpg(0, signal.SIGKILL)


def become_kernel(request):
    """Be what Jupyter wanted to start: in its folder and environment, and until it is asked to end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path.remove(str(Path(__file__).parent))
    ends_with = f"--IPKernelApp.parent_handle={os.getppid()}"  # the server
    sys.argv = ["ipykernel_launcher", "-f", request["file"], ends_with]
    sys.exit(sys.modules["ipykernel.kernelapp"].launch_new_instance())


class Server:
    """The process that is forked, from the first page that imports PyTorch until the build is over."""

    def __init__(self):
        self.folder = self.process = None

    def install(self, _):
        """Let Jupyter find the kernelspec before that of the environment."""
        self.folder = Path(tempfile.mkdtemp())
        kernel = self.folder / "kernels" / "python3"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps(SPECIFICATION))
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("JUPYTER_PATH")]))

    def choose(self, _, __, source):
        """Who runs the page that is about to be read."""
        os.environ.pop(ADDRESS, None)
        if "\nimport torch\n" in source[0]:
            os.environ[ADDRESS] = str(self.folder / "asked")
            self.process = self.process or self.started(os.environ[ADDRESS])

    def started(self, address):
        command = [sys.executable, __file__, "serve", address]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        while not Path(address).exists() and process.poll() is None:
            select.select([], [], [], 0.01)
        return process

    def stop(self, *_):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def setup(app):
    server = Server()
    app.connect("builder-inited", server.install)
    app.connect("source-read", server.choose)
    app.connect("build-finished", server.stop)
    return {"parallel_read_safe": False}


if __name__ == "__main__":
    {"ask": ask, "serve": serve}[sys.argv[1]](sys.argv[2])
