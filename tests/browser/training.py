"""A small training that is watched: ``python training.py FOLDER STEPS [BYTES]``.

With BYTES no file may be larger, as on a disk that is full.
"""

import resource
import sys
import time
import warnings

import torch

import backprobe as bp

SECONDS = 0.05  # of a step


def main(folder: str, steps: int, most: int = 0) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(12)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        warnings.simplefilter("ignore")  # the run could not be written: the viewer shows what there is
    with bp.watch(model, folder, optimizer=optimizer) as run:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
            print("step", flush=True)
            time.sleep(SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
