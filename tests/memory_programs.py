"""Trainings that let something outlive its step, each at the line with the mark ``# here``, and healthy ones."""

import copy
import functools
import gc
import queue
from collections import deque

import torch
from torch import nn

N = 5
LOSSES, OUTPUTS, ERRORS, BUFFER = [], {}, [], deque(maxlen=100)


def setting():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(N, 3, 4)


def step(loss, optimizer, **how):
    loss.backward(**how)
    optimizer.step()
    optimizer.zero_grad()


# what outlives its step


def a_global_list(watch):
    model, optimizer, batches = setting()
    LOSSES.clear()
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            LOSSES.append(loss)  # here
            step(loss, optimizer)


def a_local_list(watch):
    model, optimizer, batches = setting()
    losses = []
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            losses.append(loss)  # here
            step(loss, optimizer)


def lists_by_name(watch):
    model, optimizer, batches = setting()
    history = {}
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            history.setdefault("loss", []).append(loss)  # here
            step(loss, optimizer)


def dictionaries_by_step(watch):
    model, optimizer, batches = setting()
    history = {}
    with watch(model):
        for at, x in enumerate(batches):
            loss = model(x).square().mean()
            history[at] = {"loss": loss}  # here
            step(loss, optimizer)


def a_running_sum(watch):
    model, optimizer, batches = setting()
    total = 0.0
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            total = total + loss  # here
            step(loss, optimizer)
    return total


def an_attribute(watch):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.history = nn.Linear(4, 2), []

        def forward(self, x):
            h = self.layer(x)
            self.history.append(h)  # here
            return h

    _, _, batches = setting()
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)


def a_closure(watch):
    def recorder():
        kept = []

        def record(value):
            kept.append(value)  # here

        return record

    model, optimizer, batches = setting()
    record = recorder()
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            record(loss)
            step(loss, optimizer)


def a_dictionary(watch):
    model, optimizer, batches = setting()
    OUTPUTS.clear()
    with watch(model):
        for at, x in enumerate(batches):
            out = model(x)
            OUTPUTS[at] = out  # here
            step(out.square().mean(), optimizer)


def a_forward_hook(watch):
    class Recorder:
        def __init__(self):
            self.seen = []

        def __call__(self, module, given, output):
            self.seen.append(output)  # here

    model, optimizer, batches = setting()
    recorder = Recorder()
    model[0].register_forward_hook(recorder)
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)


def hooks_of_each_step(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            model[0].register_forward_hook(lambda module, given, output: None)  # here
            step(model(x).square().mean(), optimizer)


def a_cycle(watch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result = result = x * x
            ctx.x = x
            return result

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2 * ctx.x

    model, optimizer, batches = setting()
    gc.disable()
    try:
        with watch(model):
            for x in batches:
                step(Square.apply(model(x)).mean(), optimizer)  # here
    finally:
        gc.enable()


def a_carried_state(watch):
    torch.manual_seed(0)
    cell = nn.RNNCell(4, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.0)
    state = torch.zeros(3, 4)
    with watch(cell):
        for x in torch.randn(N, 3, 4):
            state = cell(x, state)  # here
            loss = state.square().mean()
            loss.backward(retain_graph=True)
            optimizer.zero_grad()
            watch.step()


def zeros_in_place_of_gradients(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            model(x).square().mean().backward()
            optimizer.step()  # here
            optimizer.zero_grad(set_to_none=False)


def a_traceback(watch):
    def failing(model, x):
        out = model(x)
        raise ValueError(float(out.detach().sum()))

    model, optimizer, batches = setting()
    ERRORS.clear()
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)
            try:
                failing(model, x)
            except ValueError as error:
                ERRORS.append(error)  # here


def a_cache(watch):
    model, optimizer, batches = setting()

    @functools.lru_cache(None)
    def predicted(at):
        return model(batches[at])

    with watch(model):
        for at in range(N):
            step(predicted(at).square().mean(), optimizer)


def a_queue(watch):
    model, optimizer, batches = setting()
    BUFFER.clear()
    with watch(model):
        for x in batches:
            out = model(x)
            BUFFER.append((x, out))  # here
            step(out.square().mean(), optimizer)


LEAKS = {
    a_global_list: ("graphs", "LOSSES[…]"),
    a_local_list: ("graphs", "losses[…]"),
    a_running_sum: ("graphs", "total"),
    lists_by_name: ("graphs", "history['loss'][…]"),
    dictionaries_by_step: ("graphs", "history[…]['loss']"),
    an_attribute: ("graphs", "model.history[…]"),
    a_closure: ("graphs", "record's kept[…]"),
    a_dictionary: ("graphs", "OUTPUTS[…]"),
    a_forward_hook: ("graphs", "recorder.seen[…]"),
    hooks_of_each_step: ("hooks", "hooks_of_each_step.<locals>.<lambda>"),
    a_cycle: ("cycle", ""),
    a_carried_state: ("graphs", "state"),
    zeros_in_place_of_gradients: ("gradients", "SGD"),
    a_traceback: ("graphs", "ERRORS[…].__traceback__ → out of failing()"),
    a_queue: ("graphs", "BUFFER[…][…]"),
    a_cache: ("graphs", "predicted[…]"),
}
"""By program: the kind of what is held, and the way to it."""


# healthy ones


def numbers(watch):
    model, optimizer, batches = setting()
    losses = []
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            losses.append(loss.item())
            step(loss, optimizer)
    return losses


def detached(watch):
    model, optimizer, batches = setting()
    outputs, total = [], torch.zeros(())
    with watch(model):
        for x in batches:
            out = model(x)
            outputs.append(out.detach())
            total += out.detach().sum()
            step(out.square().mean(), optimizer)


def accumulated_gradients(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for at, x in enumerate(torch.cat([batches, batches])):
            (model(x).square().mean() / 2).backward()
            if at % 2:
                optimizer.step()
                optimizer.zero_grad()


def two_optimizers(watch):
    model, optimizer, batches = setting()
    other = nn.Linear(2, 1)
    second = torch.optim.Adam(other.parameters())
    with watch(model):
        for x in batches:
            fake = model(x)
            other(fake.detach()).mean().backward()
            second.step()
            second.zero_grad()
            (-other(fake).mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
            second.zero_grad()


def truncated_backpropagation(watch):
    cell = nn.RNNCell(4, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    state = torch.zeros(3, 4)
    with watch(cell):
        for x in torch.randn(N, 3, 4):
            state = cell(x, state.detach())
            step(state.square().mean(), optimizer)


def last_output(watch):
    model, optimizer, batches = setting()
    last = []
    with watch(model):
        for x in batches:
            out = model(x)
            last = [out]
            step(out.square().mean(), optimizer)
    return last


def first_output(watch):
    model, optimizer, batches = setting()
    first = None
    with watch(model):
        for x in batches:
            out = model(x)
            first = out if first is None else first
            step(out.square().mean(), optimizer)
    return first


def evaluated(watch):
    model, optimizer, batches = setting()
    scores = []
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)
            with torch.no_grad():
                scores.append(model(x).mean())


def moving_average(watch):
    model, optimizer, batches = setting()
    average = {name: own.detach().clone() for name, own in model.named_parameters()}
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)
            for name, own in model.named_parameters():
                average[name].mul_(0.9).add_(own.detach(), alpha=0.1)


def best_weights(watch):
    model, optimizer, batches = setting()
    best = []
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)
            best.append(copy.deepcopy(model.state_dict()))


def checkpointed(watch):
    from torch.utils.checkpoint import checkpoint

    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            step(checkpoint(model, x, use_reentrant=False).square().mean(), optimizer)


def kept_graph_of_one_step(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            out = model(x)
            out.mean().backward(retain_graph=True)
            step(out.square().mean(), optimizer)


def penalty_on_gradients(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            x.requires_grad_()
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            step(slope.square().mean(), optimizer)
            x.requires_grad_(False)


def closing_hooks(watch):
    model, optimizer, batches = setting()
    seen = []
    with watch(model):
        for x in batches:
            handle = model[0].register_forward_hook(lambda *given: seen.append(given[2].detach().mean()))
            step(model(x).square().mean(), optimizer)
            handle.remove()


def with_scheduler(watch):
    model, optimizer, batches = setting()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)
            scheduler.step()


def with_second_order_optimizer(watch):
    model, _, batches = setting()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    with watch(model):
        for x in batches:

            def closure(x=x):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)


def with_own_function(watch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 2 * x

    model, optimizer, batches = setting()
    with watch(model):
        for x in batches:
            step(Square.apply(model(x)).mean(), optimizer)


def written_down(watch):
    model, optimizer, batches = setting()
    lines = queue.Queue()
    with watch(model):
        for x in batches:
            loss = model(x).square().mean()
            lines.put(f"{loss.item():.3f}")
            step(loss, optimizer)


def caught_errors(watch):
    model, optimizer, batches = setting()
    texts = []
    with watch(model):
        for x in batches:
            try:
                out = model(x)
                step(out.mean(), optimizer)
                raise ValueError("nothing")
            except ValueError as error:
                texts.append(str(error))


def frozen_half(watch):
    model, _, batches = setting()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    with watch(model):
        for x in batches:
            step(model(x).square().mean(), optimizer)


def gradients_that_are_zero_at_first(watch):
    model, optimizer, batches = setting()
    with watch(model):
        for at, x in enumerate(batches):
            loss = (at * model(x)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


HEALTHY = (
    gradients_that_are_zero_at_first,
    numbers,
    detached,
    accumulated_gradients,
    two_optimizers,
    truncated_backpropagation,
    last_output,
    first_output,
    evaluated,
    moving_average,
    best_weights,
    checkpointed,
    kept_graph_of_one_step,
    penalty_on_gradients,
    closing_hooks,
    with_scheduler,
    with_second_order_optimizer,
    with_own_function,
    written_down,
    caught_errors,
    frozen_half,
)
