"""States that a program carries from one step into the next: the remedy is put into the program as it is, and cures."""

import textwrap

import pytest
import torch

import backprobe as bp
from commands import invoked
from goldens import golden
from remedied import defined

HEAD = """
import torch
from dataclasses import dataclass
from torch import nn
torch.manual_seed(0)
x, sequence = torch.randn(2, 3), torch.randn(5, 2, 3)
"""
STEP = """
def train(block, steps=3, retain=False):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with block():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = step()
            loss.backward(retain_graph=retain)
            optimizer.step()
"""
ATTRIBUTE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.h = nn.GRUCell(3, 4), torch.zeros(2, 4)

    def forward(self, x):
        # again
        self.h = self.cell(x, self.h)
        return self.h

model = Net()

def step():
    return model(x).square().mean()
"""
STATES = {
    "an attribute": (ATTRIBUTE, "self.h = self.h.detach()"),
    "an attribute that another method writes": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.h = nn.GRUCell(3, 4), torch.zeros(2, 4)

    def remember(self, h):
        self.h = h

    def forward(self, x):
        # again
        out = self.cell(x, self.h)
        self.remember(out)
        return out

model = Net()

def step():
    return model(x).square().mean()
""",
        "self.h = self.h.detach()",
    ),
    "a pair in an attribute": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.LSTMCell(3, 4), (torch.zeros(2, 4), torch.zeros(2, 4))

    def forward(self, x):
        # again
        self.state = self.cell(x, self.state)
        return self.state[0]

model = Net()

def step():
    return model(x).square().mean()
""",
        "self.state = tuple(part.detach() for part in self.state)",
    ),
    "a pair beside the outputs": (
        """
class Trainer:
    def __init__(self):
        self.hidden = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)

    def step(self):
        # again
        out, self.hidden = model(sequence, self.hidden)
        return out.square().mean()

model = nn.LSTM(3, 4)
step = Trainer().step
""",
        "self.hidden = tuple(part.detach() for part in self.hidden)",
    ),
    "pairs in a tuple": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTMCell(3, 4), nn.LSTMCell(4, 4)
        self.states = ((torch.zeros(2, 4),) * 2,) * 2

    def forward(self, x):
        first, second = self.states
        # again
        first = self.a(x, first)
        second = self.b(first[0], second)
        self.states = first, second
        return second[0]

model = Net()

def step():
    return model(x).square().mean()
""",
        "second = tuple(part.detach() for part in second); first = tuple(part.detach() for part in first)",
    ),
    "an item of a dict": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(3, 4), {"h": torch.zeros(2, 4)}

    def forward(self, x):
        # again
        self.state["h"] = self.cell(x, self.state["h"])
        return self.state["h"]

model = Net()

def step():
    return model(x).square().mean()
""",
        "self.state['h'] = self.state['h'].detach()",
    ),
    "items of a list, in a loop over layers": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(3, 4), nn.GRUCell(4, 4)])
        self.states = [torch.zeros(2, 4), torch.zeros(2, 4)]

    def forward(self, x):
        for i, cell in enumerate(self.cells):
            # again
            x = self.states[i] = cell(x, self.states[i])
        return x

model = Net()

def step():
    return model(x).square().mean()
""",
        "self.states[i] = self.states[i].detach()",
    ),
    "a parameter of a function, under another name": (
        """
def advance(x, state):
    # again
    new = model(x, state)
    return new.square().mean(), new

model, memory = nn.GRUCell(3, 4), torch.zeros(2, 4)

def step():
    global memory
    loss, memory = advance(x, memory)
    return loss
""",
        "state = state.detach()",
    ),
    "a variable of the function around": (
        """
def maker(cell):
    h = torch.zeros(2, 4)

    def step():
        nonlocal h
        # again
        h = cell(x, h)
        return h.square().mean()

    return step

model = nn.GRUCell(3, 4)
step = maker(model)
""",
        "h = h.detach()",
    ),
    "fields of an object": (
        """
@dataclass
class State:
    h: torch.Tensor
    c: torch.Tensor

def advance(state):
    # again
    return State(*model(x, (state.h, state.c)))

model, state = nn.LSTMCell(3, 4), State(torch.zeros(2, 4), torch.zeros(2, 4))

def step():
    global state
    state = advance(state)
    return state.h.square().mean()
""",
        "state.c, state.h = state.c.detach(), state.h.detach()",
    ),
    "a buffer": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        h = self.layer(x).tanh()
        # again
        self.mean = self.mean.lerp(h.mean(0), 0.1)
        return h - self.mean

model = Net()

def step():
    return model(x).square().mean()
""",
        "self.mean = self.mean.detach()",
    ),
}


def note_of(tmp_path, text, block=bp.probe, **options):
    program = defined(HEAD + text + STEP, tmp_path)
    with pytest.raises(RuntimeError) as caught:
        program.train(block, **options)
    return caught.value.__notes__[-1]


@pytest.mark.parametrize("case", STATES)
def test_what_detaches_a_state_is_spelled_as_the_program_spells_it_and_cures(tmp_path, case):
    text, remedy = STATES[case]
    golden("explain", note_of(tmp_path, text))
    line = next(line for line in text.splitlines() if line.strip() == "# again")
    cured = text.replace(line, textwrap.indent(remedy, line[: len(line) - len(line.lstrip())]))
    defined(HEAD + cured + STEP, tmp_path).train(bp.probe)


@pytest.mark.parametrize("case", STATES)
def test_around_a_model_a_module_is_not_taken_for_a_variable(tmp_path, case):
    """What modules give has the names of modules: no statement can be written with these."""
    program = defined(HEAD + STATES[case][0] + STEP, tmp_path)
    with pytest.raises(RuntimeError) as caught:
        program.train(lambda: bp.probe(program.model))
    remedy = caught.value.__notes__[-1].partition("next: ")[2]
    assert remedy.strip().startswith("detach() what is kept of '")
    assert "retain_graph" not in remedy


def test_of_a_graph_that_is_retained_the_remedy_is_the_same(tmp_path):
    """There the optimizer has updated what the step before would need."""
    note = note_of(tmp_path, ATTRIBUTE, retain=True)
    assert "optimizer.step()" in note.partition("written: ")[2]
    golden("explain", note)


KEPT = {
    "a list": ("recent = []", "recent.append(h)", "torch.stack(recent)"),
    "a deque": ("from collections import deque\nrecent = deque()", "recent.append(h)", "torch.stack(tuple(recent))"),
    "a dict": ("recent = {}", "recent[len(recent)] = h", "torch.stack(list(recent.values()))"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_value_that_a_container_keeps_is_not_detached_by_a_name_that_is_anothers_by_then(tmp_path, case):
    made, kept, read = KEPT[case]
    note = note_of(
        tmp_path,
        f"""
model = nn.Linear(3, 4)
{made}

def step():
    h = model(x).tanh()
    {kept}
    return {read}.square().mean()
""",
    )
    assert "h = h.detach()" not in note
    golden("explain", note)


ONCE = """
def train():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.1)
    with bp.probe():
        unit = w / w.norm()
        for _ in range(3):
            # again
            optimizer.zero_grad()
            loss = (x * unit).square().sum()
            loss.backward()
            optimizer.step()
    return w
"""


def test_what_is_computed_once_before_the_loop_is_to_be_computed_in_it(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        defined(HEAD + "import backprobe as bp\n" + ONCE, tmp_path).train()
    remedy = caught.value.__notes__[-1].partition("next: ")[2]
    golden("explain", remedy.split("\n")[0])
    assert "first loss" not in remedy
    assert "retain_graph" not in remedy
    cured = HEAD + "import backprobe as bp\n" + ONCE.replace("# again", "unit = w / w.norm()")
    assert not torch.equal(defined(cured, tmp_path).train(), torch.ones(3))


def test_two_losses_of_one_step_are_no_carried_state():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        h = w.exp()
        first, second = h.sum(), h.prod()
        first.backward()
        second.backward()
    golden("explain", caught.value.__notes__[-1])


# where each step is recorded by itself, as those of a script are

STEP_BY_STEP = """
def train(block, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        with block():
            optimizer.zero_grad()
            loss = step()
            loss.backward()
            optimizer.step()
"""


GIVEN = ("a parameter of a function, under another name", "fields of an object")
"""States that are given to a function by the caller, so that they have names when the recording begins."""


@pytest.mark.parametrize("case", [case for case in STATES if case not in GIVEN])
def test_what_was_freed_before_the_recording_has_the_same_remedy(tmp_path, case):
    text, remedy = STATES[case]
    with pytest.raises(RuntimeError) as caught:
        defined(HEAD + text + STEP_BY_STEP, tmp_path).train(bp.probe)
    note = caught.value.__notes__[-1]
    golden("explain", note)
    line = next(line for line in text.splitlines() if line.strip() == "# again")
    cured = text.replace(line, textwrap.indent(remedy, line[: len(line) - len(line.lstrip())]))
    defined(HEAD + cured + STEP_BY_STEP, tmp_path).train(bp.probe)


@pytest.mark.parametrize(
    ("case", "uses"),
    [
        (GIVEN[0], [("state", "state.detach()")]),
        (GIVEN[1], [("state.h", "state.h.detach()"), ("state.c", "state.c.detach()")]),
    ],
)
def test_each_part_of_a_state_that_is_given_is_to_be_detached(tmp_path, case, uses):
    text = STATES[case][0]
    with pytest.raises(RuntimeError) as caught:
        defined(HEAD + text + STEP_BY_STEP, tmp_path).train(bp.probe)
    note = caught.value.__notes__[-1]
    assert f"or use {' and '.join(sorted(use for _, use in uses))}, if" in note
    line = text[text.index("# again") :].splitlines()[1]
    cured = line
    for name, use in uses:
        cured = cured.replace(name, use)
    defined(HEAD + text.replace(line, cured) + STEP_BY_STEP, tmp_path).train(bp.probe)


LISTS = {
    "a variable": (
        """
kept = []

def step():
    kept.append(model(x).square().mean())
    total = sum(kept)
    return total
""",
        "kept = [part.detach() for part in kept]",
        "program.kept = [part.detach() for part in program.kept]",
    ),
    "an attribute": (
        """
class Trainer:
    def __init__(self):
        self.kept = []

    def step(self):
        out = model(x).square()
        self.kept.append(out)
        loss = torch.stack(self.kept).mean()
        return loss

trainer = Trainer()
step = trainer.step
""",
        "self.kept = [part.detach() for part in self.kept]",
        "t = program.trainer; t.kept = [p.detach() for p in t.kept]",
    ),
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_that_keeps_what_earlier_steps_computed_is_detached_after_each_backward(tmp_path, case):
    text, remedy, cure = LISTS[case]
    text = "\nmodel = nn.Linear(3, 4)\n" + text
    with pytest.raises(RuntimeError) as caught:
        defined(HEAD + text + STEP_BY_STEP, tmp_path).train(bp.probe)
    golden("explain", caught.value.__notes__[-1])
    program = defined(HEAD + text + STEP_BY_STEP, tmp_path)
    for _ in range(3):
        program.train(bp.probe, steps=1)
        exec(cure, {"program": program})


def test_variables_that_a_script_carries_into_its_next_iteration(tmp_path):
    script = tmp_path / "rnn.py"
    script.write_text(
        HEAD
        + """
rnn = nn.LSTM(3, 4)
h, c = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
for _ in range(3):
    out, (h, c) = rnn(sequence, (h, c))
    out.square().mean().backward()
"""
    )
    status, printed, _ = invoked("explain", str(script))
    assert status == 3
    assert "survived: 'h#0'" in printed
    golden("explain", printed)


def test_what_was_computed_once_before_the_recording_is_to_be_computed_again():
    w = torch.ones(3, requires_grad=True)
    unit = w / w.norm()
    unit.sum().backward()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = (unit * 2).sum()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "survived: 'unit'" in note
    golden("explain", note)


def test_a_part_from_before_that_was_not_freed_is_not_blamed():
    w = torch.ones(3, requires_grad=True)
    kept, freed = w.exp(), w.exp()
    freed.sum().backward()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = (kept * freed).sum()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "survived: 'freed'" in note
    assert "'kept'" not in note


def test_an_attribute_that_is_computed_once_is_not_said_to_be_carried():
    class Table:
        def __init__(self, w):
            self.rows = w.exp()

        def step(self):
            u = self.rows * 2
            return u.sum()

    table = Table(torch.ones(3, requires_grad=True))
    table.step().backward()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = table.step()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "survived: a value without a name" in note
    assert "used:     '/Table.step:u'" in note or "used:     '/step:u'" in note
    assert "compute it again" in note
    assert "detach" not in note
