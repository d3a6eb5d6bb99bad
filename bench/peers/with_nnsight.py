"""The cost of module output gradients with nnsight, as ratios to the bare step in this process.

Asked as its README asks ("Take gradients"): inside ``model.trace(...)`` the outputs are read in the order in which the
modules run; inside ``with loss.backward():`` their ``.grad`` in the reverse order, with ``nnsight.save`` of one list
for all, as its page on performance advises. The first tensor of a container stands for it. The
model that is wrapped, once, has the weights of the bare step's model and is another object.
"""

from time import process_time

import nnsight
import torch
from allocator import pin
from models import SIZES, gpt2
from side_by_side import compare, show


def in_order(program):
    """The paths of the modules that run, in the order in which they return."""
    ran, handles = [], []
    for path, module in program.model.named_modules():
        handles.append(module.register_forward_hook(lambda module, args, out, path=path: ran.append(path)))
    with torch.no_grad():
        program.loss()
    for handle in handles:
        handle.remove()
    return [path for path in ran if path]


def traced(wrapped, inputs, paths):
    """A step that ends with the gradients of these modules' outputs, the last first."""
    envoys = [wrapped.get(path) for path in paths]

    def step():
        with wrapped.trace(**inputs):
            outputs = [envoy.output for envoy in envoys]
            outputs = [output if torch.is_tensor(output) else output[0] for output in outputs]
            loss = wrapped.output.loss
            with loss.backward():
                gradients = nnsight.save([output.grad for output in reversed(outputs)])
        wrapped._module.zero_grad()
        return gradients

    return step


def main():
    torch.set_num_threads(1)
    print(f"nnsight {nnsight.__version__}, PyTorch {torch.__version__}")
    for name, size in SIZES.items():
        program = gpt2(size)
        step, paths = program.bare(), in_order(program)
        selections = {"every module's output": paths, "each attention's": [p for p in paths if p.endswith(".attn")]}
        wrapped = nnsight.NNsight(gpt2(size).model)
        variants = {named: traced(wrapped, program.inputs, chosen) for named, chosen in selections.items()}
        found = {named: f"{len(run())} modules" for named, run in variants.items()}
        median, ratios = compare({"bare, again": step, **variants}, step, clock=process_time)
        print(f"GPT-2 {name} ({size}): bare step {median * 1e3:.1f} ms")
        show(ratios, found)


if __name__ == "__main__":
    pin()
    main()
