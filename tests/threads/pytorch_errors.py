"""Threads about errors that PyTorch raises, or that end in one."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

from threads import thread

THREADS = []
error = thread("error", THREADS)


@error(
    "https://github.com/lyongo/NWPU-MOC/issues/4",
    "a feature pyramid adds the level above with `+=`",
    "write a new value instead of `+=`",
    says=("SigmoidBackward0", "instead of `laterals[0] += "),
)
def pyramid(probe):
    fine, coarse = nn.Conv1d(1, 1, 1), nn.Conv1d(1, 1, 1)
    with probe():
        laterals = [torch.sigmoid(fine(torch.ones(1, 1, 4))), coarse(torch.ones(1, 1, 2))]  # <- made saved
        laterals[0] += F.interpolate(laterals[1], scale_factor=2.0)  # <- written
        loss = laterals[0].sum()
        loss.backward()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        out = torch.relu(self.linear(x))  # <- made saved for residual_block
        out += x  # <- written for residual_block
        return out


@error(
    "https://github.com/argusswift/YOLOv4-pytorch/issues/247",
    "a residual block adds its input in place to the output of a ReLU",
    "`out = out + residual` instead of `out += residual`",
    says=("ReluBackward0", "instead of `out += x`"),
)
def residual_block(probe):
    model = nn.Sequential(Residual(), nn.Linear(2, 1))
    with probe():
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()


@error(
    "https://github.com/AggMan96/RK-Net/issues/9",
    "the border of an attention map is set to zero in place",
    "clone the map before writing to it",
)
def border(probe):
    features = torch.ones(1, 4, requires_grad=True)
    with probe():
        attention = torch.sigmoid(features)  # <- made saved
        attention[:, 0] = 0  # <- written
        loss = (attention * features).sum()
        loss.backward()


@error(
    "https://github.com/qianyu-dlut/MVANet/issues/2",
    "a loop makes every ReLU and Dropout of a model work in place",
    "the asker finds the loop that sets `inplace = True`, and uses another activation",
    says=("inplace=False",),
)
def all_in_place(probe):
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))
    for module in model.modules():
        if isinstance(module, (nn.ReLU, nn.Dropout)):
            module.inplace = True
    with probe(model):
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()


@error(
    "https://github.com/psh01087/Vid-ODE/issues/6",
    "the discriminator is updated before the generator's loss, which went through it, runs backward",
    "run backward for the generator first, then update the discriminator",
    says=("optimizer_d.step()",),
)
def adversarial(probe):
    generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    with probe():
        fake = generator(torch.ones(1, 2))
        loss_g = -discriminator(fake).mean()  # <- saved
        loss_d = discriminator(fake.detach()).mean()
        loss_d.backward()
        optimizer_d.step()  # <- written
        loss_g.backward()


@error(
    "https://github.com/tamarott/SinGAN/issues/148",
    "an image made before the loop is used again after the generator's weights were updated",
    "generate the image anew in each turn of the loop",
    says=("optimizer.step()",),
)
def same_fake(probe):
    generator = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
    with probe():
        fake = generator(torch.ones(1, 2))  # <- saved
        for _ in range(2):
            loss = fake.square().mean()
            loss.backward(retain_graph=True)
            optimizer.step()  # <- written


@error(
    "https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57",
    "the hidden state of an RNN goes from one step of training into the next",
    "keep the state's numbers and drop its history: `h_state = h_state.data`",
    says=("h_state = h_state.detach()",),
)
def carried_state(probe):
    rnn, head = nn.RNN(1, 2), nn.Linear(2, 1)
    h_state = None
    with probe():
        for _ in range(2):
            out, h_state = rnn(torch.ones(3, 1, 1), h_state)  # <- survived used
            loss = head(out).sum()
            loss.backward()  # <- freed


class KeepsHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 2)
        self.hidden = (torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))

    def forward(self, x):
        out, self.hidden = self.lstm(x, self.hidden)  # <- survived used for state_in_attribute
        return out


@error(
    "https://github.com/sgadgil6/cnslab_fmri/issues/4",
    "a module keeps the state of its LSTM in an attribute, and starts the next batch from it",
    "do not pass the kept state to the LSTM again",
)
def state_in_attribute(probe):
    model = KeepsHidden()
    with probe():
        for _ in range(2):
            loss = model(torch.ones(3, 1, 1)).sum()
            loss.backward()  # <- freed


@error(
    "https://github.com/davda54/sam/issues/45",
    "the second backward of a two-step optimizer takes the output of the first forward",
    "closed, answer not seen; its own code comments: a full forward pass again",
    says=("output",),
)
def second_step(probe):
    model = nn.Linear(2, 1)
    with probe():
        output = model(torch.ones(1, 2))  # <- survived
        loss = output.square().mean()
        loss.backward()  # <- freed
        output.square().mean().backward()


def repackage(hidden):
    if isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return hidden


@error(
    "https://github.com/quark0/darts/issues/56",
    "a helper detaches a hidden state, but not a pair of them",
    "let the helper go into tuples",
)
def repackaged(probe):
    cell = nn.LSTMCell(1, 2)
    hidden = (torch.zeros(1, 2), torch.zeros(1, 2))
    with probe():
        for _ in range(2):
            hidden = repackage(hidden)
            h, c = cell(torch.ones(1, 1), hidden)  # <- survived used
            hidden = (h, c)
            loss = h.sum()
            loss.backward()  # <- freed


@error(
    "https://github.com/OpenNMT/OpenNMT-py/issues/403",
    "`h.detach()` in a loop over the states, whose result is dropped",
    "`detach()` returns a new tensor: put it back into the state",
)
def dropped_detach(probe):
    cell = nn.GRUCell(1, 2)
    states = [torch.zeros(1, 2)]
    with probe():
        for _ in range(2):
            for h in states:
                h.detach()
            states[0] = cell(torch.ones(1, 1), states[0])  # <- survived used
            loss = states[0].sum()
            loss.backward()  # <- freed


@error(
    "https://github.com/Atcold/NYU-DLSP20/issues/765",
    "sinusoidal positions are written into the weight of an Embedding",
    "write under `torch.no_grad()`: the positions are computed, not learned",
    says=("torch.no_grad()",),
)
def positions(probe):
    embedding = nn.Embedding(4, 2)
    angles = torch.arange(4.0)
    with probe():
        weight = embedding.weight  # <- made
        weight[:, 0] = torch.sin(angles)  # <- at:


@error(
    "https://github.com/BaiTheBest/SparseLLM/issues/13",
    "a hand-written update with `-=` of the tensor that is learned",
    "`s = s - lr * s.grad`, a new tensor",
    says=("torch.no_grad()",),
)
def update_by_hand(probe):
    s_batch = torch.ones(2, requires_grad=True)
    with probe():
        loss = s_batch.square().sum()
        loss.backward()
        s_batch -= 0.1 * s_batch.grad  # <- at:


@error(
    "https://github.com/haofanwang/Score-CAM/issues/28",
    "an image is denormalised in place, channel by channel",
    "write new channels: `mul_` and `add_` on what a loop over a tensor gives are not allowed",
    says=("channel",),
)
def denormalised(probe):
    image = torch.ones(3, 2, requires_grad=True)
    with probe():
        picture = image * 1.0
        for channel, mean in zip(picture, (0.4, 0.5, 0.6), strict=True):  # <- made
            channel.add_(mean)  # <- at:


@error(
    "https://github.com/pytorch/pytorch/issues/26596",
    "`nn.Embedding(max_norm=...)` used after its weight went into a product",
    "with `max_norm` the forward writes to the weight: clone it before it is used directly",
    says=("embedding.weight",),
    lacks="the line that writes: the weight has no name in this block",
)
def renormalised(probe):
    embedding = nn.Embedding(3, 5, max_norm=0.1)
    matrix = torch.ones(7, 5, requires_grad=True)
    with probe():
        a = embedding.weight @ matrix.t()  # <- saved
        b = embedding(torch.tensor([1, 2])) @ matrix.t()
        loss = a.sum() + b.sum()
        loss.backward()


@error(
    "https://github.com/mindee/doctr/pull/379",
    "a loss with a number for each sample",
    "take its mean",
    says=("(2,)", ".mean()"),
)
def loss_of_each_sample(probe):
    logits = torch.ones(2, 3, requires_grad=True)
    with probe():
        loss = F.cross_entropy(logits, torch.tensor([0, 1]), reduction="none")  # <- made
        loss.backward()


def validate(model):
    torch.set_grad_enabled(False)
    model(torch.ones(1, 2))
    raise AssertionError("validation fails before gradients are switched on again")


@error(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/2180",
    "validation fails, and gradients stay switched off for the training that follows",
    "a global switch, which is put back only if nothing is raised in between",
    says=("set_grad_enabled(False)",),
)
def switched_off(probe):
    model = nn.Linear(2, 1)
    try:
        with contextlib.suppress(AssertionError):
            validate(model)
        with probe():
            output = model(torch.ones(1, 2))  # <- at:
            loss = output.sum()
            loss.backward()
    finally:
        torch.set_grad_enabled(True)


class Force(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        energy = self.linear(x).square().sum()  # <- at: for force_in_validation
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force


@error(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/4487",
    "a model that differentiates in its forward is validated under `no_grad`",
    "switch gradients on again at the start of the validation step",
    says=("torch.no_grad()",),
)
def force_in_validation(probe):
    model = Force()
    x = torch.ones(2, 3, requires_grad=True)
    with probe(), torch.no_grad():
        force = model(x)
        force.sum()


@error(
    "https://php.bkmy88.com/faq/1835025.html",
    "a loss of the predicted classes, by `argmax`, instead of the logits",
    "give the loss the logits themselves",
    says=("positions",),
)
def classes_into_loss(probe):
    model = nn.Linear(4, 3)
    labels = torch.tensor([0.0, 2.0])
    with probe():
        logits = model(torch.ones(2, 4))
        predicted = torch.softmax(logits, dim=1).argmax(dim=1).type(torch.float32)  # <- at:
        loss = F.mse_loss(predicted, labels)
        loss.backward()


@error(
    "https://github.com/qubvel-org/segmentation_models.pytorch/pull/611",
    "a Dice loss of thresholded predictions",
    "closed; it hid the error with `requires_grad=True` on the thresholded mask",
    says=("true or false",),
)
def thresholded_dice(probe):
    logits = torch.tensor([0.5, -0.5], requires_grad=True)
    target = torch.tensor([1.0, 0.0])
    with probe():
        p = torch.sigmoid(logits)
        mask = (p > 0.5).type(p.dtype)  # <- at:
        loss = 1 - 2 * (mask * target).sum() / (mask.sum() + target.sum())
        loss.backward()
