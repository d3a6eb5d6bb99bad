"""The cost of every module's output gradient with TorchLens, as ratios to the bare step in this process.

Asked as its README asks ("Forward AND backward pass"): ``tl.trace`` with ``save_grads``, ``log_backward`` of the loss,
then the gradients of each module by its path. It records every operation of the forward pass whatever is selected. The
second line is the leanest capture that its options were found to allow: activations kept as views instead of copies,
no source context, no detection of recurrence. (A predicate for ``save_grads`` that keeps the operations that end a
module costs no less, and loses the gradients of modules that return their input, such as a dropout of 0.)

TorchLens wraps PyTorch's functions when it first traces, and its documentation advises leaving them wrapped. So the
bare step beside it runs wrapped functions; their slowdown is printed too.
"""

import warnings
from time import process_time

import torch
import torchlens as tl
from allocator import pin
from models import SIZES, gpt2
from side_by_side import PAIRS, compare, show

FULL = {"capture": tl.options.CaptureOptions(save_grads=True)}
LEAN = {
    "save_mode": "view",
    "capture": tl.options.CaptureOptions(save_grads=True, save_code_context=False, recurrence_detection=False),
}


def traced(program, options):
    """A step that ends with the gradients of each module's output, by the module's path."""
    model = program.model
    paths = [path for path, _ in model.named_modules() if path]

    def step():
        log = tl.trace(model, [], program.inputs, **options)
        log.log_backward(log["output_1"].out)  # the first output of the model is the loss
        gradients = {path: log.modules[path].grads for path in paths if path in log.modules}  # a list for each
        model.zero_grad()
        return {path: found for path, found in gradients.items() if any(map(torch.is_tensor, found))}

    return step


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"TorchLens {tl.__version__}, PyTorch {torch.__version__}")
    made = {name: gpt2(size) for name, size in SIZES.items()}
    unwrapped = {}
    for name, program in made.items():
        unwrapped[name], _ = compare({"bare": program.bare()}, program.bare(), clock=process_time)
    for name, program in made.items():
        step = program.bare()
        variants = {
            "every operation": traced(program, FULL),
            "every operation, lean": traced(program, LEAN),
        }
        found = {variant: f"{len(run())} modules" for variant, run in variants.items()}
        median, ratios = compare({"bare, again": step, **variants}, step, PAIRS, process_time)
        print(
            f"GPT-2 {name} ({SIZES[name]}): bare step {median * 1e3:.1f} ms, "
            f"× {median / unwrapped[name]:.2f} of unwrapped"
        )
        show(ratios, found)


if __name__ == "__main__":
    pin()
    main()
