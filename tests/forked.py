"""A training that forks in a block: ``python forked.py KIND END FOLDER`` prints what became of the child, and the run.

A child that waits for ever is ended by an alarm, whose number is in its status.
"""

import multiprocessing
import os
import signal
import sys

import torch

import backprobe as bp
from watched import Net, batches, sgd

KIND, END, FOLDER = sys.argv[1:]
KINDS = {
    "watch": lambda model, optimizer: bp.watch(model, FOLDER, optimizer=optimizer),
    "guarded watch": lambda model, optimizer: bp.watch(model, FOLDER, optimizer=optimizer, guard=True),
    "guard": lambda model, optimizer: bp.guard(),
    "guard of a model": lambda model, optimizer: bp.guard(model),
    "probe": lambda model, optimizer: bp.probe(),
    "probe of a model": lambda model, optimizer: bp.probe(model),
}


def ended(block):
    """What a child does: it leaves the block, or ends in it, or goes on to train."""
    signal.alarm(30)
    if END == "exits":
        sys.exit(0)
    if END == "raises":
        raise KeyError(END)
    if END == "uses it":
        if "watch" in KIND:
            block.flush(), block.log(loss=1.0), block.step, block.current_step, block.acknowledged
            block.__exit__(None, None, None)
        os._exit(0)
    return END == "leaves"


def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = sgd(model)
    child = -1
    with KINDS[KIND](model, optimizer) as block:
        for at, x in enumerate(batches(4)):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if at == 1:
                if END == "a process":
                    started = multiprocessing.get_context("fork").Process(target=signal.alarm, args=(30,))
                    started.start()
                    started.join()
                    print("child", started.exitcode, flush=True)
                    continue
                child = os.fork()
                if child == 0 and ended(block):
                    break
    if child == 0:
        os._exit(0)
    if child > 0:
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    if "watch" in KIND:
        with bp.open_run(FOLDER) as run:
            print(run.steps.tolist(), run.gaps, len(run.attempts))


if __name__ == "__main__":
    main()
