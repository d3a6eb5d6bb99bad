"""Blocks where two processes train together: what a block says of a parameter is what backward left in ``.grad``."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("block_processes.py")
TOGETHER = "Processes that train together"


def case(claim, section=TOGETHER, answer="works"):
    return pytest.mark.block(claim, section, answer=answer)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return str(held.getsockname()[1])


@case("DistributedDataParallel and FSDP2 (`fully_shard`): a parameter's entry is bitwise its `.grad`, on every rank")
@case("micro-batches with `no_sync()` and `set_requires_gradient_sync(False)`; `zero_grad()` in the block")
@case("`.grad` accumulated before the block", answer="works: the difference that the block made")
@case("only one rank probes, or prints its recording: no rank waits for another")
def test_two_processes():
    port = free_port()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, SCRIPT, str(rank), port], **pipes) for rank in (0, 1)]
    try:
        ended = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    cases = ("one_step", "micro_batches", "accumulated_before", "parameters_alone", "one_rank_probes",
             "one_rank_prints")  # fmt: skip
    expected = "".join(f"{kind} {name} ok\n" for kind in ("averaged", "sharded") for name in cases)
    for out, errors in ended:
        assert out == expected, out + errors
