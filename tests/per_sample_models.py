"""Twelve architectures, each with a batch: what ``bp.per_sample`` is compared on with one backward for each sample."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTForImageClassification,
)

B = 5


class Training(nn.Module):
    """A model with its loss."""

    def __init__(self, body, loss):
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, x, y):
        out = self.body(x)
        return self.loss(out, y)


class Residual(nn.Module):
    """A block of convolutions with a batch normalisation, which is used as in evaluation."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 3)
        self.norm.running_mean.normal_()

    def forward(self, x):
        h = self.stem(x)
        h = h + self.norm(h).relu()
        return self.head(h.mean((2, 3)))


class Recurrent(nn.Module):
    """Cells in a loop."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        state = x.new_zeros(len(x), 4)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return self.head(state)


class Lstm(nn.Module):
    """PyTorch's own LSTM, which does not run under vmap."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


class Tied(nn.Module):
    """A language model whose embedding is its head."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix, self.head = nn.Embedding(11, 4), nn.Linear(4, 4), nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.mix(self.embedding(x)).tanh()).flatten(0, 1)


class Experts(nn.Module):
    """A mixture of experts with soft gates."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(3, 3), nn.ModuleList([nn.Linear(3, 2) for _ in range(3)])

    def forward(self, x):
        gates = self.gate(x).softmax(-1)
        outs = torch.stack([expert(x) for expert in self.experts], -1)
        return (outs * gates[:, None]).sum(-1)


class Fourier(nn.Module):
    """A filter in the frequency domain, with complex numbers inside."""

    def __init__(self):
        super().__init__()
        self.filter, self.head = nn.Parameter(torch.randn(5)), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=8))


def flat_entropy(out, y):
    return F.cross_entropy(out, y.flatten())


def classes(count):
    return torch.arange(B) % count


def mlp():
    return Training(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), F.mse_loss), randn(3), randn(2)


def cnn():
    body = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )
    return Training(body, F.cross_entropy), randn(2, 6, 6), classes(3)


def residual():
    return Training(Residual(), nn.CrossEntropyLoss(reduction="sum")).eval(), randn(2, 5, 5), classes(3)


def recurrent():
    return Training(Recurrent(), F.cross_entropy), randn(4, 3), classes(2)


def lstm():
    return Training(Lstm(), F.cross_entropy), randn(4, 3), classes(2)


def encoder():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return Training(nn.Sequential(layer, nn.Flatten(), nn.Linear(12, 2)), F.cross_entropy), randn(3, 4), classes(2)


def tied():
    return Training(Tied(), flat_entropy), torch.randint(11, (B, 4)), torch.randint(11, (B, 4))


def experts():
    return Training(Experts(), F.cross_entropy), randn(3), classes(2)


def fourier():
    return Training(Fourier(), F.mse_loss), randn(8), randn(2)


def gpt2():
    config = GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=13, n_positions=8, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config).eval(), torch.randint(13, (B, 5)), None


def bert():
    config = BertConfig(
        vocab_size=13,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )
    return BertForSequenceClassification(config).eval(), torch.randint(13, (B, 5)), classes(2)


def vit():
    config = ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=4,
        patch_size=2,
        num_labels=2,
    )
    return ViTForImageClassification(config).eval(), randn(3, 4, 4), classes(2)


def randn(*shape):
    return torch.randn(B, *shape)


ARCHITECTURES = (mlp, cnn, residual, recurrent, lstm, encoder, tied, experts, fourier, gpt2, bert, vit)
OF_HUGGING_FACE = (gpt2, bert, vit)


def call(make):
    """The model, the arguments of its call by keyword, and which output is its loss."""
    torch.manual_seed(0)
    model, x, y = make()
    if make in OF_HUGGING_FACE:
        first = "pixel_values" if make is vit else "input_ids"
        return model, {first: x, "labels": x if y is None else y}, "loss"
    return model, {"x": x, "y": y}, None


def one_by_one(model, given, of):
    """The truth: a backward of each sample as a batch of one, by the name of the parameter."""
    found = {name: [] for name, _ in model.named_parameters()}
    for at in range(B):
        model.zero_grad()
        out = model(**{name: value[at : at + 1] for name, value in given.items()})
        (out if of is None else out[of]).backward()
        for name, parameter in model.named_parameters():
            found[name].append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone())
    model.zero_grad()
    return {name: torch.stack(own) for name, own in found.items()}


def of_batch(model, given, of):
    """The gradient of the batch, as its program computes it, by the name of the parameter."""
    model.zero_grad()
    out = model(**given)
    (out if of is None else out[of]).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    for parameter in model.parameters():
        parameter.grad = None
    return found
