"""The table fitted to a width, and of many rows its head and tail."""

import io
import re

import pytest
import torch
from rich.console import Console
from torch import nn

import backprobe as bp
from backprobe.backends.discover import load_arrays
from backprobe.show.columns import elided

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def fitted(recording, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(recording)
    return console.file.getvalue().splitlines()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection_of_queries = nn.Linear(12, 12)

    def forward(self, hidden_states):
        query_states = self.projection_of_queries(hidden_states)
        position_ids = torch.arange(12)
        detached_states = query_states.detach()
        attention_weights = torch.softmax(query_states @ detached_states.mT, -1)
        return attention_weights @ hidden_states


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer_layers = nn.ModuleList([nn.ModuleDict({"attention": Attention()}) for _ in range(3)])

    def forward(self, x):
        for layer in self.transformer_layers:
            x = layer["attention"](x)
        return x.square().mean()


@pytest.fixture(scope="module")
def recording():
    torch.manual_seed(0)
    return bp.probe(Transformer(), ["**", "**:*"])(torch.randn(2, 12, 12))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_line_fits_and_no_number_is_broken(recording, width):
    rows = [line for line in fitted(recording, width) if "not tensors" not in line]
    assert max(map(len, rows)) <= width
    whole = set(NUMBER.findall(str(recording)))
    for line in rows[1:]:
        first = rows[0].index("value")
        last = rows[0].index("source") if "source" in rows[0] else width
        shown = line[first:last].partition("…")[0]
        assert set(NUMBER.findall(shown)) <= whole, line


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_each_entry_has_a_row_of_its_own(recording, width):
    shown = fitted(recording, width)
    column = shown[0].index("value") - 2
    names = [line[:column].rstrip() for line in shown[1:] if not line.startswith(("not tensors", "gradients", "= "))]
    tensors = [entry for entry in recording.values() if entry.status != "not_tensor"]
    assert len(set(names[: len(tensors)])) == len(tensors)
    for name, entry in zip(names, tensors, strict=False):
        kept = ".+".join(map(re.escape, name.split("…")))
        assert re.fullmatch(kept, entry.name), name


def test_the_source_goes_before_a_name_is_cut_and_a_reason_becomes_its_status(recording):
    wide, narrow = fitted(recording, 200), fitted(recording, 80)
    assert "source" in wide[0]
    assert "source" not in narrow[0]
    assert any("detached: " in line for line in wide)
    assert any(line.endswith("  detached") for line in narrow)
    assert "float32" in "".join(wide)
    assert "float32" not in "".join(narrow)


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("encoder.layers.0.attention:weights#1", 36, "encoder.layers.0.attention:weights#1"),
        ("encoder.layers.0.attention:weights#1", 30, "encoder.layers.0…:weights#1"),
        ("encoder.layers.0.attention/softmax:weights", 24, "encoder.layers…:weights"),
        ("a_name_that_is_rather_long", 13, "a_na…her_long"),
    ],
)
def test_the_middle_of_a_path_is_left_out(name, width, shown):
    assert elided([name], width) == [shown]


def test_names_that_would_look_alike_lose_what_they_share():
    names = [f"model.encoder.layers.{at}.attention.projection" for at in (10, 11)]
    assert elided(names, 28) == ["…10.attention.projection", "…11.attention.projection"]


def test_names_that_share_nothing_with_others_and_would_look_alike_keep_their_ends():
    alike = [
        "model.h.0.attention.query.weight",
        "model.h.0.attention.value.weight",
        "model.h.0.attention/softmax_in_parts:weights",
        "model.h.0.attention:weights",
        "= model.h.0.attention/softmax_in_parts:return.0",
        "= model.h.0.attention.dropout:return.0",
    ]
    shown = elided([*alike, "/cross_entropy_of_all_tokens:source"], 24)
    assert shown[0::3] == ["…attention.query.weight", "…h.0.attention:weights", "/cross_…ll_tokens:source"]
    assert len({*shown}) == len(shown)
    assert max(map(len, shown)) <= 24


def many(count):
    def f(x):
        for _ in range(count):
            x = x * 1.5
        return x.sum()

    return bp.probe(f)(torch.ones(3))


def test_of_many_rows_the_head_and_the_tail_are_printed(capsys):
    recording = many(300)
    recording.show(rows=6)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:8]] == ["name", "x#0", "x#1", "x#2", "…", "x#299", "x#300", "return"]
    assert lines[4] == "… 296 more"
    recording.show(rows=None)
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("x#")]) == 301
    assert "… 242 more" in str(recording)
    assert "… 242 more" in recording._repr_html_()
    assert recording._repr_html_().count("<tr>") == 1 + 60 + 1


def test_few_rows_are_all_printed():
    assert "\n… " not in str(many(50))


@pytest.mark.parametrize("rows", [0, -3, "all", 2.5])
def test_a_number_of_rows(rows):
    with pytest.raises(bp.BadOption, match="rows is a whole number from 1 on"):
        many(1).show(rows=rows)


def test_minus_zero_is_zero():
    def f(x):
        return (x * torch.tensor([-0.0, 1.0])).sum()

    recording = bp.probe(f)(torch.tensor([1.0, -1e-3]))
    assert recording["x"].grad.tolist() == [-0.0, 1.0]
    assert "[0, 1]" in str(recording)


# what is read once


def test_statistics_are_computed_once_for_each_version(monkeypatch):
    arrays, read = load_arrays("torch"), []
    summarize = arrays.summarize
    monkeypatch.setattr(arrays, "summarize", lambda tensor: read.append(1) or summarize(tensor), raising=False)
    tensor = torch.ones(100)
    assert arrays.summary(tensor) is arrays.summary(tensor)
    assert len(read) == 1
    tensor.mul_(2)
    assert arrays.summary(tensor).largest == 2
    assert len(read) == 2


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(400, 500),
        torch.randn(400, 500).mT,
        torch.randn(400, 1000)[:, ::2],
        torch.randn(70_000)[::2],
        torch.randn(1, 500).expand(400, 500),
        torch.randn(300_000).half(),
        torch.randn(300_000).bfloat16(),
        torch.randint(-9, 9, (300_000,)),
        torch.randn(200_000, dtype=torch.complex64),
        torch.randn(300_000) * 1e30,
        torch.randn(300_000) * 1e-30,
        torch.cat([torch.randn(300_000) * 1e-3, torch.tensor([1e15, float("nan")])]),
    ],
    ids=lambda tensor: f"{tensor.dtype} {tuple(tensor.shape)} {tuple(tensor.stride())}",
)
def test_statistics_in_chunks_are_those_of_the_whole(tensor):
    found = load_arrays("torch").summarize(tensor)
    wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64).flatten()
    finite = wide[torch.isfinite(wide)]
    assert (found.size, found.nonfinite) == (wide.numel(), wide.numel() - finite.numel())
    assert found.largest == pytest.approx(float(finite.abs().max()), rel=1e-6)
    assert found.rms == pytest.approx(float(finite.abs().square().mean().sqrt()), rel=1e-5)
    host = load_arrays("numpy").summarize(tensor.resolve_conj().numpy()) if tensor.dtype != torch.bfloat16 else found
    assert (host.size, host.nonfinite) == (found.size, found.nonfinite)
    assert host.rms == pytest.approx(found.rms, rel=1e-5)


def test_what_counts_no_writes_is_read_each_time():
    arrays = load_arrays("torch")
    with torch.inference_mode():
        tensor = torch.ones(100)
        assert arrays.summary(tensor).largest == 1
        tensor.mul_(2)
        assert arrays.summary(tensor).largest == 2
