"""The cost of a drawing: the first one of a process, and others, with Graphviz's share.

The floor is Graphviz: it reads the graph, lays it out and writes SVG. Our own share is the statistics of each value
and gradient, and the text of each node. Absolute times mean little on a shared machine; the shares do.
"""

import statistics
import subprocess
import sys
import time

import torch

import backprobe as bp
from backprobe.demo import small_gpt2, toy
from backprobe.draw.layout import graph_of

ROUNDS = 7
FIRST = """
import time, torch, backprobe as bp
from backprobe.demo import toy
rec = bp.probe(toy, partials=True)(3.0, 2.0, 1.0)
started = time.perf_counter()
bp.draw(rec)
print(time.perf_counter() - started)
"""


def chain(x):
    """200 nodes: each value from the two before it."""
    a, b = x, x * 1.5
    for _ in range(198):
        a, b = b, torch.tanh(a * 0.5 + b)
    return b


def median(step):
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main():
    torch.set_num_threads(1)
    first = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    print(f"toy, the first drawing of a process (loads pygraphviz): {float(first.stdout):.3f} s")
    model, tokens = small_gpt2(12)
    large, ids = small_gpt2(12, 672)
    recordings = {
        "toy": (bp.probe(toy, partials=True)(3.0, 2.0, 1.0), None),
        "200 nodes": (bp.probe(chain, partials=True)(0.3), 1),
        "GPT-2 of 12 layers, depth 2": (bp.probe(model, of="loss", partials=True)(tokens, labels=tokens), 2),
        "GPT-2 of 66 M parameters, opened as far as fits a page": (bp.probe(large, of="loss")(ids, labels=ids), None),
    }
    for name, (recording, depth) in recordings.items():
        started = time.perf_counter()
        circuit = bp.draw(recording, depth=depth)._drawn.circuit
        first = time.perf_counter() - started
        whole = median(lambda recording=recording, depth=depth: bp.draw(recording, depth=depth))
        dot = median(lambda circuit=circuit: graph_of(circuit, "TB").draw(format="svg", prog="dot"))
        cost = f"{first:.3f} s, again {whole:.3f} s, of which Graphviz {dot / whole:.0%}"
        print(f"{name}: {len(circuit.nodes)} nodes, {cost}")


if __name__ == "__main__":
    main()
