"""What a run takes from other processes is gone: from pipes, sockets and queues. Then a program is not run again."""

import multiprocessing
import os
import queue
import socket
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest
import torch

import backprobe as bp

X = torch.tensor(2.0)
ROWS = [1.0, 2.0, 3.0, 4.0]


def pipe(stack):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.writelines(f"{row}\n" for row in ROWS)
    return stack.enter_context(os.fdopen(reading))


def child(stack):
    words = [sys.executable, "-S", "-c", f"print(*{ROWS}, sep='\\n')"]
    return stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))


def connection(stack):
    reading, writing = multiprocessing.Pipe(duplex=False)
    with writing:
        for row in ROWS:
            writing.send(row)
    return stack.enter_context(reading)


def sockets(stack):
    reading, writing = socket.socketpair()
    with writing:
        writing.sendall(b"1234")
    return stack.enter_context(reading)


def filled(stack, made):
    stack.callback(made.close)
    for row in ROWS:
        made.put(row)
    return made


STREAMS = {
    "a pipe": (pipe, lambda held: float(held.readline())),
    "a child's output": (child, lambda held: float(held.stdout.readline())),
    "a connection": (connection, lambda held: held.recv()),
    "a socket": (sockets, lambda held: float(held.recv(1))),
    "a queue": (lambda stack: filled(stack, multiprocessing.Queue()), lambda held: held.get(timeout=10)),
    "a simple queue": (lambda stack: filled(stack, multiprocessing.SimpleQueue()), lambda held: held.get()),
}
streams = pytest.mark.parametrize("stream", STREAMS)


@streams
def test_a_program_that_takes_from_it_is_not_run_again(stream):
    made, take = STREAMS[stream]
    with ExitStack() as stack:
        held = made(stack)
        with pytest.raises(bp.Unsupported, match="cannot be run again: the first run took from an? "):
            bp.noise_floor(lambda x: x * take(held))(X)
        assert take(held) == 2.0
    assert sys.getprofile() is None
    assert "recv" not in vars(socket.socket)


@streams
def test_one_that_does_not_is(stream):
    with ExitStack() as stack:
        held = STREAMS[stream][0](stack)
        assert bp.noise_floor(lambda x: x * (2 if held is None else 3))(X)


@streams
def test_nor_is_it_where_nobody_asked_for_that(stream):
    made, take = STREAMS[stream]
    with ExitStack() as stack:
        held = made(stack)
        rec = bp.probe(lambda x, w: ((x * take(held)).detach() * w).sum())(torch.ones(3), torch.ones(3))
        notes = " ".join(bp.explain(rec).notes)
        assert "takes from " in notes or stream == "a child's output"
        assert take(held) == (3.0 if "it took from a" in notes else 2.0)


def test_what_is_given_to_another_process_is_no_reason():
    reading, writing = socket.socketpair()
    with reading, writing:

        def program(x):
            writing.sendall(b"called")
            return x * 3

        assert bp.noise_floor(program, runs=2)(X)
        assert reading.recv(100) == b"called" * 3


def test_nor_is_a_queue_that_was_asked_and_had_nothing():
    with closing(multiprocessing.Queue()) as items:

        def program(x):
            try:
                return x * items.get_nowait()
            except queue.Empty:
                return x * 3

        assert bp.noise_floor(program)(X)
