"""What a probe costs, as ratios against the bare step measured side by side in one run.

The bare step is forward, loss and the gradients of all parameters. The floor of a probe: for each value one gradient
edge (about 1.3 µs), one detached alias (0.8 µs) and one name; no byte of a value is copied unless it is written in
place. Two walks over autograd's graph (inputs of each entry, order of backward) cost about 1 µs a node. With partials,
each value costs one more pass of the engine, which walks all the graph before it to see where it may stop.
"""

import torch
from side_by_side import compare

import backprobe as bp
from backprobe.demo import small_gpt2

ATTENTION = "transformer.h.*.attn"
SIZES = {"small": (2, 64, 2, 16), "mid": (4, 256, 8, 64)}  # layers, width, batch, tokens


def steps(model, tokens):
    """Name and callable of each step that is compared with the bare one."""
    parameters = list(model.parameters())

    def by_hand():
        """What people paste: a hook on each attention that retains the gradient of its output."""
        kept, handles = [], []
        for block in model.transformer.h:
            handles.append(block.attn.register_forward_hook(lambda module, args, out: kept.append(out[0])))
        loss = model(tokens, labels=tokens).loss
        found = torch.autograd.grad(loss, [*kept, *parameters])
        for handle in handles:
            handle.remove()
        return found

    def probed(*patterns):
        return lambda: bp.probe(model, [*patterns, "**.weight", "**.bias"], of="loss")(tokens, labels=tokens)

    return {
        "bare, again": lambda: torch.autograd.grad(model(tokens, labels=tokens).loss, parameters),
        "attention outputs by hand": by_hand,
        "attention outputs": probed(ATTENTION),
        "and two locals a layer": probed(ATTENTION, f"{ATTENTION}:query_states", f"{ATTENTION}:key_states"),
        "every module's output": lambda: bp.probe(model, of="loss")(tokens, labels=tokens),
        "every local of every forward": probed("**", "**:*"),
        "every output, with partials": lambda: bp.probe(model, of="loss", partials=True)(tokens, labels=tokens),
    }


def main():
    torch.set_num_threads(1)
    for size, (layers, width, batch, length) in SIZES.items():
        model, _ = small_gpt2(layers, width)
        tokens = torch.randint(0, 1000, (batch, length))
        variants = steps(model, tokens)
        bare, ratios = compare(variants, variants["bare, again"])
        print(f"GPT-2 {size}: bare step {bare * 1e3:.1f} ms")
        for name, ratio in ratios.items():
            print(f"  {name:32} × {ratio:.2f}")


if __name__ == "__main__":
    main()
