"""The cost of the first step in a block beside the second: finding, rewriting and compiling the source of what runs.

All values of a 32-layer Llama, in processes of their own. Each first and second step begins right after a full garbage
collection: with PyTorch and transformers imported one takes about as long as a step, and falls into one by chance.
"""

import gc
import statistics
import subprocess
import sys

PROCESSES = 5
LAYERS = 32


def measure():
    import torch
    from side_by_side import once
    from transformers import LlamaConfig, LlamaForCausalLM

    import backprobe as bp

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=LAYERS,
            hidden_size=64,
            intermediate_size=128,
            num_attention_heads=4,
            vocab_size=256,
            use_cache=False,
        )
    )
    ids = torch.randint(256, (1, 16))

    def bare():
        model(ids, labels=ids).loss.backward()

    def probed():
        with bp.probe(model, ["**", "**:*"]):
            bare()

    bare()
    bare()
    for step in (probed, probed, bare):
        gc.collect()
        print(once(step))


def main():
    command = [sys.executable, __file__, "measure"]
    runs = [
        [float(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]
        for _ in range(PROCESSES)
    ]
    first, second, bare = (statistics.median(times) for times in zip(*runs, strict=True))
    added = statistics.median(first - second for first, second, _ in runs)
    print(
        f"first use, every value of a {LAYERS}-layer Llama: {added:.2f} s more than the second step "
        f"(first {first:.2f} s, second {second:.2f} s, bare {bare:.3f} s)"
    )


if __name__ == "__main__":
    measure() if "measure" in sys.argv else main()
