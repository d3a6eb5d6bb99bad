"""Cells run in a kernel of their own, as a notebook is; one for PyTorch is forked from a process that has it."""

import select
from importlib.metadata import EntryPoint

import nbformat
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from nbclient import NotebookClient

import prepared

IMPORTED = "torch IPython ipykernel.kernelapp"


class Kernel:
    """A kernel that is forked, as what ``Popen`` gives."""

    pid, stdin, stdout, stderr = -1, None, None, None

    def __init__(self, words, cwd, env):
        self.started, self.status = prepared.start(IMPORTED, *words, cwd=cwd, env=env), None

    def poll(self):
        if self.status is None and select.select([self.started.connection], [], [], 0)[0]:
            self.wait()
        return self.status

    def wait(self):
        if self.status is None:
            self.status = self.started.ended().returncode
        return self.status

    def send_signal(self, number):
        if self.poll() is None:
            self.started.kill()
            self.status = -number


class Forked(LocalProvisioner):
    """Starts a kernel for PyTorch."""

    async def launch_kernel(self, cmd, **settings):
        self.process = Kernel(cmd[cmd.index("-m") :], settings.get("cwd"), settings.get("env"))
        return self.connection_info


def client(book, *, is_forked=True, **settings):
    """What runs a notebook."""
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["forked"] = EntryPoint("forked", f"{__name__}:Forked", factory.GROUP_NAME)
    factory.default_provisioner_name = "forked" if is_forked else "local-provisioner"
    return NotebookClient(book, **settings)


def executed(*sources, is_forked=True, **settings):
    """What each cell prints."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client(book, is_forked=is_forked, timeout=600, **settings).execute()
    return ["".join(part.text for part in cell.outputs if part.get("name") == "stdout") for cell in book.cells]
