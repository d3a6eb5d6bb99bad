"""The cost of a probe in PyTorch, as ratios to the bare step measured side by side in one run.

The bare step is forward, loss, ``backward()`` and the gradients cleared; for the model form, which leaves no ``.grad``
behind, it is forward, loss and ``autograd.grad`` with respect to all parameters, which the probe selects too.
A probed step ends with ``rec.grads()``: everything selected has been read, as with hand-written hooks.

The floor of a probe: for each value one gradient edge (about 1.3 µs), one detached alias (0.8 µs) and one name; no byte
of a value is copied unless it is written in place. With partials, each value costs one more pass of the engine.
"""

import sys
from functools import partial
from time import process_time

import torch
from allocator import pin, run_with_default
from memory import bytes_behind, peak
from models import SIZES, Size, bare, bare_functional, gpt2
from side_by_side import compare, show

import backprobe as bp

ATTENTION = "transformer.h.*.attn"
PARAMETERS = ["**.weight", "**.bias"]
OUTPUTS, LOCALS, EVERYTHING = "every module's output", "two locals a layer", "everything: every local too"
SELECTIONS = {
    OUTPUTS: ["**", *(f"!{pattern}" for pattern in PARAMETERS)],
    LOCALS: [f"{ATTENTION}:query_states#0", f"{ATTENTION}:key_states#0"],
    EVERYTHING: ["**", "**:*"],
}
BY_HAND = "by hand: every output, retain_grad"
NOISE = "bare, again"
WIDTH = 36
compare = partial(compare, clock=process_time)


def by_hand(model, tokens):
    """What people paste: a hook on every module that keeps its output and has its gradient retained."""

    def step():
        kept, handles = {}, []
        for name, module in model.named_modules():

            def keep(module, args, output, name=name):
                tensor = output if torch.is_tensor(output) else output[0]
                if tensor.requires_grad:
                    tensor.retain_grad()
                    kept[name] = tensor

            handles.append(module.register_forward_hook(keep))
        model(tokens, labels=tokens).loss.backward()
        gradients = {name: tensor.grad for name, tensor in kept.items()}
        for handle in handles:
            handle.remove()
        model.zero_grad()
        return kept, gradients

    return step


class BlockForm:
    """``with bp.probe(model, patterns) as rec:`` around the user's own step."""

    title = "block form, beside backward()"
    bare = staticmethod(bare)

    @staticmethod
    def step(model, tokens, patterns, parameters=None, **options):
        def step():
            with bp.probe(model, patterns, **options) as rec:
                model(tokens, labels=tokens).loss.backward()
            gradients = rec.grads()
            model.zero_grad()
            return rec, gradients

        return step

    @classmethod
    def asked(cls, model, tokens, patterns):
        """The bytes behind the values and gradients recorded, the model's own parameters and ``.grad`` left out."""
        with bp.probe(model, patterns) as rec:
            model(tokens, labels=tokens).loss.backward()
        parameters = list(model.parameters())
        total = bytes_behind(recorded(rec), [*parameters, *(parameter.grad for parameter in parameters)])
        model.zero_grad()
        return total


class ModelForm:
    """``bp.probe(model, patterns, of="loss")(tokens, labels=tokens)``."""

    title = "model form, beside autograd.grad"
    bare = staticmethod(bare_functional)

    @staticmethod
    def step(model, tokens, patterns, parameters=PARAMETERS, **options):
        patterns = [*(pattern for pattern in patterns if pattern.removeprefix("!") not in parameters), *parameters]

        def step():
            rec = bp.probe(model, patterns, of="loss", **options)(tokens, labels=tokens)
            return rec, rec.grads()

        return step

    @classmethod
    def asked(cls, model, tokens, patterns):
        """The bytes behind the values and gradients recorded and the result, which a recording has too.

        Left out are parameters and their gradients, which the bare step has alive at its end as well.
        """
        rec, _ = cls.step(model, tokens, patterns)()
        parameters = dict(model.named_parameters())
        known = [*parameters.values(), *(rec[name].grad for name in parameters if name in rec)]
        return bytes_behind([*recorded(rec), rec.result.loss, rec.result.logits], known)


def recorded(recording):
    """The tensors that a recording holds."""
    held = [tensor for entry in recording.values() for tensor in (entry.held_value, entry.grad_or_none)]
    return [tensor for tensor in held if torch.is_tensor(tensor)]


def forms():
    """The forms of probe that this version has."""
    try:
        with bp.probe(torch.nn.Identity(), "**"):
            pass
    except bp.Unsupported as error:
        print(error.headline)
        return [ModelForm]
    except bp.BackprobeError:  # the block form is there, and has found nothing in this one
        pass
    return [BlockForm, ModelForm]


def time_steps(form, size, selections=SELECTIONS, *, partials=False, hooks=True):
    model, tokens = gpt2(SIZES[size])
    steps = {NOISE: form.bare(model, tokens)}
    if hooks:
        steps[BY_HAND] = by_hand(model, tokens)
    steps |= {name: form.step(model, tokens, SELECTIONS[name]) for name in selections}
    if partials:
        steps[f"{OUTPUTS}, with partials"] = form.step(model, tokens, SELECTIONS[OUTPUTS], partials=True)
    median, ratios = compare(steps, form.bare(model, tokens))
    print(f"GPT-2 {size} ({SIZES[size]}), {form.title}: bare step {median * 1e3:.1f} ms")
    show(ratios)


def anomaly(model, tokens):
    """The bare step in PyTorch's own search for NaN, which stops at the first one."""
    step = bare(model, tokens)

    def checked():
        with torch.autograd.set_detect_anomaly(True):
            step()

    return checked


def time_nonfinite(form, size):
    """The search for NaN and Inf: ``nonfinite=True``, beside the same selection without it, and anomaly mode."""
    model, tokens = gpt2(SIZES[size])
    steps = {NOISE: form.bare(model, tokens), "anomaly mode of PyTorch": anomaly(model, tokens)}
    for name, patterns in {f"{OUTPUTS}, parameters": ["**", ":*"], EVERYTHING: ["**", "**:*"]}.items():
        steps[name] = form.step(model, tokens, patterns, parameters=[])
        steps[f"{name}, nonfinite"] = form.step(model, tokens, patterns, parameters=[], nonfinite=True)
    print(f"GPT-2 {size}, {form.title}: NaN and Inf ({judged_bytes(form, model, tokens) / 1e6:.0f} MB to be read)")
    show(compare(steps, form.bare(model, tokens))[1], width=WIDTH + 16)


def judged_bytes(form, model, tokens):
    """The floor of judging everything: the bytes of the different tensors that are recorded, each read once."""
    rec, _ = form.step(model, tokens, ["**", "**:*"], parameters=[])()
    return bytes_behind(recorded(rec))


def weigh_steps(form, size):
    model, tokens = gpt2(SIZES[size])
    floor = peak(form.bare(model, tokens))
    print(f"GPT-2 {size}, {form.title}: {floor / 1e6:.1f} MB of tensors at the peak; beyond it")
    for name, patterns in SELECTIONS.items():
        step = form.step(model, tokens, patterns)
        extra, asked = peak(step) - floor, form.asked(model, tokens, patterns)
        print(f"  {name:{WIDTH}} {extra / 1e6:6.2f} MB, {extra / asked:4.0%} of the {asked / 1e6:.2f} MB asked for")
    print(f"  {BY_HAND:{WIDTH}} {(peak(by_hand(model, tokens)) - floor) / 1e6:6.2f} MB")


def grow_layers(form):
    """Linear in the layers: the ratio stays what it is."""
    print(f"Ratio as the layers grow, width 64, {form.title}")
    for layers in (2, 8, 32):
        model, tokens = gpt2(Size(layers, 64, 2, 16))
        steps = {name: form.step(model, tokens, SELECTIONS[name]) for name in (OUTPUTS, EVERYTHING)}
        _, ratios = compare({NOISE: form.bare(model, tokens), **steps}, form.bare(model, tokens))
        print(f"  {layers:2} layers   " + "   ".join(f"{name} × {ratio:.2f}" for name, ratio in ratios.items()))


def grow_selection(form):
    """Linear in what is selected; what is not selected costs one cached walk over the modules."""
    size = Size(32, 64, 2, 16)
    model, tokens = gpt2(size)
    ten = ["transformer.wpe", *(f"transformer.h.{layer}.mlp" for layer in range(9))]
    steps, beside = {}, {}
    for name, patterns in {"1 module": ten[:1], "10 modules": ten, "all modules": SELECTIONS[OUTPUTS]}.items():
        steps[name] = form.step(model, tokens, patterns, parameters=[])
        beside[name] = f"{len(steps[name]()[0])} entries"
    bare_step = form.bare(model, tokens, "transformer.wpe.weight")
    print(f"Ratio as the selection grows ({size}), {form.title}")
    show(compare({NOISE: bare_step, **steps}, bare_step)[1], beside)


def main():
    torch.set_num_threads(1)
    print("--- pinned allocator, one thread")
    here = forms()
    for size in SIZES:
        time_steps(here[0], size)
        for form in here[1:]:
            time_steps(form, size, (OUTPUTS, EVERYTHING), partials=size == "small", hooks=False)
    for size in SIZES:
        for form in here:
            time_nonfinite(form, size)
    for size in SIZES:
        for form in here:
            weigh_steps(form, size)
    grow_layers(here[0])
    for form in here:
        grow_selection(form)
    run_with_default(__file__, "default")


def main_with_default():
    torch.set_num_threads(1)
    print("--- the allocator that the machine has, one thread")
    form = forms()[0]
    for size in SIZES:
        time_steps(form, size, (OUTPUTS, EVERYTHING), hooks=False)


if __name__ == "__main__":
    if sys.argv[1:] == ["default"]:
        main_with_default()
    else:
        pin()
        main()
