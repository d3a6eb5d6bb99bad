"""Writers of a run that are killed at random moments: python killed_writers.py FOLDER KILLS EVERY.

Each goes on where the last was killed, and says which steps are acknowledged; after each kill the run is read. They are
forked from this process, which has imported all that they need: fifty take a few seconds.
"""

import os
import random
import signal
import sys
import time
from functools import cache
from pathlib import Path

import backprobe as bp
from backprobe.storage.runs import layout
from written_runs import rms, rows, step, writer

layout.MOST_STEPS = 7  # so that many moments fall into the writing of a chunk


def write(folder, every, acknowledged):
    """Write without an end; every number that is acknowledged goes into the pipe."""
    one = writer(folder)
    one.add_rows(rows(["a", "b"], ["grad"]))
    for number in range(one.next_step, 10**9):
        one.append(step(number, 2))
        if number % every == 0:
            one.commit()
            os.write(acknowledged, f"{number}\n".encode())


def kill(folder, every, moments):
    """Fork a writer, kill it at one of these moments, and return the last step that it has acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        write(folder, every, writing)
    os.close(writing)
    with os.fdopen(reading) as said:
        lines = [said.readline() for _ in range(moments.randrange(1, 9))]
        time.sleep(moments.random() / 200)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return int([*lines, *said][-1])


@cache
def expected(number):
    return rms(step(number, 2), 1)


def main(folder, kills, every):
    moments = random.Random(every)
    for _ in range(kills):
        acknowledged = kill(folder, every, moments)
        with bp.open_run(folder) as run:
            steps, found = run.series("b", "grad.rms")
            assert steps.tolist() == list(range(len(steps)))
            assert len(steps) > acknowledged, (len(steps), acknowledged)
            assert found.tolist() == [expected(number) for number in range(len(steps))]
    print(f"{kills} kills, nothing acknowledged lost")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
