"""Blocks where two processes train together: what a block says of a parameter is what backward left in ``.grad``."""

import socket
from pathlib import Path

import pytest
import torch

import prepared
from commands import DISTRIBUTED

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
    started = [prepared.start(DISTRIBUTED, SCRIPT, rank, port, timeout=240) for rank in (0, 1)]
    cases = (
        "one_step",
        "micro_batches",
        "accumulated_before",
        "parameters_alone",
        "one_rank_probes",
        "one_rank_prints",
    )
    kinds = ("averaged", "sharded") if hasattr(torch.cpu.Stream(), "record_event") else ("averaged",)
    expected = "".join(f"{kind} {name} ok\n" for kind in kinds for name in cases)
    for ended in [process.ended() for process in started]:
        said = "".join(line for line in ended.stdout.splitlines(True) if not line.startswith("[Gloo] "))
        assert said == expected, ended.stdout + ended.stderr
