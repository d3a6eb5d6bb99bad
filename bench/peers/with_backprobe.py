"""The cost of every module's output gradient with backprobe: the question that its peers are asked here."""

from time import process_time

import torch
from allocator import pin
from forms import OUTPUTS, SELECTIONS, BlockForm, ModelForm, by_hand
from models import SIZES, gpt2
from side_by_side import compare, show

import backprobe as bp


def main():
    torch.set_num_threads(1)
    print(f"backprobe {bp.__version__}, PyTorch {torch.__version__}")
    for form in (BlockForm, ModelForm):
        for name, size in SIZES.items():
            program = gpt2(size)
            steps = {"bare, again": form.bare(program), "by hand: every output, retain_grad": by_hand(program)}
            steps[OUTPUTS] = form.step(program, SELECTIONS[OUTPUTS])
            median, ratios = compare(steps, form.bare(program), clock=process_time)
            print(f"GPT-2 {name} ({size}), {form.title}: bare step {median * 1e3:.1f} ms")
            show(ratios)


if __name__ == "__main__":
    pin()
    main()
