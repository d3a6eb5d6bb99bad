"""The cost of every module's output gradient with backprobe: the question that its peers are asked here."""

from time import process_time

import torch
from allocator import pin
from models import SIZES, gpt2
from probe import BY_HAND, NOISE, OUTPUTS, SELECTIONS, by_hand, forms
from side_by_side import compare, show

import backprobe as bp


def main():
    torch.set_num_threads(1)
    print(f"backprobe {bp.__version__}, PyTorch {torch.__version__}")
    for form in forms():
        for name, size in SIZES.items():
            model, tokens = gpt2(size)
            step = form.bare(model, tokens)
            probed, hooked = form.step(model, tokens, SELECTIONS[OUTPUTS]), by_hand(model, tokens)
            median, ratios = compare({NOISE: step, BY_HAND: hooked, OUTPUTS: probed}, step, clock=process_time)
            print(f"GPT-2 {name} ({size}), {form.title}: bare step {median * 1e3:.1f} ms")
            show(ratios)


if __name__ == "__main__":
    pin()
    main()
