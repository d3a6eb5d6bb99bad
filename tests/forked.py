"""Trainings that fork in a block: ``python forked.py FOLDER`` runs each of them in a process of its own.

Each prints into a file of FOLDER what became of the child, and the run; the file is named by its two words, the block
and what the child does. PyTorch is imported once for all. A child that waits for ever is ended by an alarm, and its
status is the number of that.
"""

import atexit
import gc
import importlib
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import torch

import backprobe as bp
from sampled import WHOLE
from watched import Net, batches, sgd

BLOCKS = {
    "watch": lambda model, optimizer, folder: bp.watch(model, folder, optimizer=optimizer),
    "guarded watch": lambda model, optimizer, folder: bp.watch(model, folder, optimizer=optimizer, guard=True),
    "guard": lambda model, optimizer, folder: bp.guard(),
    "guard of a model": lambda model, optimizer, folder: bp.guard(model),
    "probe": lambda model, optimizer, folder: bp.probe(),
    "probe of a model": lambda model, optimizer, folder: bp.probe(model),
}
IN_ANY = ("exits", "raises", "leaves", "trains on")
IN_WATCHES = (*IN_ANY, "uses it", "a process")
KINDS = BLOCKS if WHOLE else ("watch", "guard of a model", "probe")  # in `make test` one of two that are alike
CASES = [(kind, end) for kind in KINDS for end in (IN_WATCHES if "watch" in kind else IN_ANY)]


def ended(kind, end, block):
    """What a child does: it leaves the block, or ends in it, or goes on to train."""
    signal.alarm(30)
    if end == "exits":
        sys.exit(0)
    if end == "raises":
        raise KeyError(end)
    if end == "uses it":
        if "watch" in kind:
            block.flush(), block.log(loss=1.0), block.step, block.current_step, block.acknowledged
            block.__exit__(None, None, None)
        os._exit(0)
    return end == "leaves"


def training(kind, end, folder):
    torch.manual_seed(0)
    model = Net()
    optimizer = sgd(model)
    child = -1
    with BLOCKS[kind](model, optimizer, folder) as block:
        for at, x in enumerate(batches(4)):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if at == 1:
                if end == "a process":
                    started = multiprocessing.get_context("fork").Process(target=signal.alarm, args=(30,))
                    started.start()
                    started.join()
                    print("child", started.exitcode, flush=True)
                    continue
                child = os.fork()
                if child == 0 and ended(kind, end, block):
                    break
    if child == 0:
        os._exit(0)
    if child > 0:
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    if "watch" in kind:
        with bp.open_run(folder) as run:
            print(run.steps.tolist(), run.gaps, len(run.attempts))


def main(folder):
    """The first process forks one for each case.

    Of its end a case runs what is registered for it, and spares the second that an interpreter takes to clear its
    modules; a child that is left to itself ends wholly.
    """
    sgd(Net())  # imports most of what takes long; a watch, PyTorch's compiler
    importlib.import_module("torch._dynamo")
    gc.freeze()  # a child looks through its own objects alone, also when it ends
    for kind, end in CASES:
        process = os.fork()
        if process == 0:
            printed = os.open(folder / f"{kind}, {end}", os.O_WRONLY | os.O_CREAT)
            os.dup2(printed, 1), os.dup2(printed, 2)
            training(kind, end, folder / f"run of {kind}, {end}")
            atexit._run_exitfuncs()
            os._exit(0)
        print(kind, end, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
