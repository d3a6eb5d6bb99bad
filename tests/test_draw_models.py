"""Where things stand in the drawings of models: parameters in their module, chains straight, all on a page."""

import functools
import itertools
import re

import pytest
import torch
from torch.nn import Sequential

import backprobe as bp
from asked import message
from backprobe.draw.fit import ENOUGH, FEW
from backprobe.draw.layout import FILLS
from drawn import SVG, Drawn
from pictured import MODELS, recorded
from small_models import small_gpt2

PAGE = 1600, 2200  # pixels
WIDE = 3  # points by which the centers of a straight chain differ: the tabs of a collapsed module stick out by 4


@functools.cache
def recording(name):
    return recorded(name, partials=True)


@functools.cache
def drawing(name):
    return bp.draw(recording(name))


@functools.cache
def shown(name):
    return Drawn(drawing(name).svg)


def frame_of(group):
    """The left, top, right and bottom of a node or box: those of all its shapes."""
    numbers = [
        [float(number) for number in re.findall(r"-?[\d.]+", shape.get("points") or shape.get("d"))]
        for shape in group.iter()
        if shape.tag in (f"{SVG}polygon", f"{SVG}path")
    ]
    across, down = ([each for own in numbers for each in own[start::2]] for start in (0, 1))
    return min(across), min(down), max(across), max(down)


def center(frame):
    return (frame[0] + frame[2]) / 2


def frames(name, kind="node"):
    """The places of the nodes or boxes of a drawing, by their first line."""
    groups = shown(name).groups[kind]
    return [(next(group.iter(f"{SVG}text")).text, frame_of(group)) for group in groups]


def overlap(one, two):
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def around(outer, inner):
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


# all models


@pytest.mark.parametrize("name", MODELS)
def test_a_drawing_fits_a_page(name):
    data = drawing(name).png()
    width, height = (int.from_bytes(data[start : start + 4]) for start in (16, 20))
    assert (width <= PAGE[0], height <= PAGE[1]) == (True, True), (width, height)


@pytest.mark.parametrize("name", MODELS)
def test_no_parameter_of_a_module_is_a_node_of_its_own(name):
    assert not [node for node, classes in shown(name).classes.items() if "parameter" in classes]


@pytest.mark.parametrize("name", MODELS)
def test_no_two_nodes_overlap_and_boxes_only_where_one_is_in_the_other(name):
    nodes, boxes = frames(name), frames(name, "cluster")
    assert not [(one[0], two[0]) for one, two in itertools.combinations(nodes, 2) if overlap(one[1], two[1])]
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        assert not overlap(first, second) or around(first, second) or around(second, first), (one, two)
    for (box, outer), (node, inner) in itertools.product(boxes, nodes):
        assert not overlap(outer, inner) or around(outer, inner), (box, node)


@pytest.mark.parametrize("name", MODELS)
def test_all_text_of_a_node_is_within_it(name):
    for group in shown(name).groups["node"]:
        left, top, right, bottom = frame_of(group)
        for text in group.iter(f"{SVG}text"):
            assert left <= float(text.get("x")) <= right, text.text
            assert top <= float(text.get("y")) <= bottom, text.text


# chains


def test_the_layers_of_a_chain_stand_below_each_other():
    places = frames("mlp")
    assert [title for title, _ in places] == [*(f"layers.{at}" for at in range(12)), "return"]
    centers = [center(frame) for _, frame in places]
    assert max(centers) - min(centers) <= WIDE
    tops = [frame[1] for _, frame in places]
    assert tops == sorted(tops)


@pytest.mark.parametrize("name", ["resnet", "unet", "lstm"])
def test_what_is_computed_one_after_the_other_stands_in_a_column_beside_what_skips_it(name):
    centers = [center(frame) for _, frame in frames(name)]
    assert max(centers) - min(centers) <= WIDE


def test_the_blocks_of_a_gpt2_stand_in_a_column():
    centers = [center(frame) for title, frame in frames("gpt2") if title not in ("wte", "wpe")]
    assert len(centers) == 17
    assert max(centers) - min(centers) <= WIDE


# parameters


def test_parameters_are_rows_in_the_node_of_their_module():
    text = shown("mlp").nodes["layers.3"]
    assert text[2] == "weight"
    assert text[5] == "bias"
    assert text[3].startswith("16×16 rms ")
    assert text[4].startswith("gradient rms ")


def test_the_parameters_of_a_module_that_runs_again_stand_in_its_first_run():
    nodes = shown("lstm").nodes
    assert {"weight_ih", "weight_hh", "bias_ih", "bias_hh"} < set(nodes["cell#0"])
    assert "weight_ih" not in nodes["cell#1"]


def test_a_parameter_that_another_module_uses_is_named_there():
    assert any("transformer.wte.weight" in text for text in shown("gpt2").nodes["lm_head"])


def test_each_fill_of_a_row_has_its_dark_one():
    style = drawing("mlp").svg.split("</style>")[0]
    assert [fill for fill in FILLS if f'[fill="{fill}"]' not in style] == []
    assert 'polygon[stroke="none"] { stroke: none; }' in style


# what is opened


def said(name):
    return " ".join(shown(name).text)


def test_a_model_of_few_values_is_drawn_in_full():
    assert len(shown("mlp").nodes) == 13
    assert "do not fit a page" not in said("mlp") + said("lstm")


@pytest.mark.parametrize(
    ("name", "values", "chosen", "more"),
    [
        ("resnet", 123, "depth=2", "for more: bp.draw(rec, depth=3), or bp.draw(rec, open='layer2.0') for one box"),
        (
            "gpt2",
            275,
            "depth=2",
            "for more: bp.draw(rec, depth=3), or bp.draw(rec, open='transformer.h.0') for one box",
        ),
        ("unet", 69, "depth=1", "for more: bp.draw(rec, depth=2), or bp.draw(rec, open='down.0') for one box"),
    ],
)
def test_more_is_opened_as_far_as_fits_and_says_how_to_open_more(name, values, chosen, more):
    assert f"{values} values do not fit a page: drawn with {chosen} {more}" in said(name)


def nodes_of(groups, layers, **options):
    """How many nodes a chain of modules has that have so many layers each."""
    chain = Sequential(*(Sequential(*(torch.nn.Tanh() for _ in range(layers))) for _ in range(groups)))
    rec = bp.probe(chain, of=lambda y: y.sum())(torch.tensor([0.5], requires_grad=True))
    assert len(rec) < FEW
    return int(re.search(r"of (\d+) nodes", repr(bp.draw(rec, **options)))[1])


def test_few_values_that_do_not_fit_are_folded_where_enough_is_still_seen():
    assert ENOUGH < nodes_of(10, 5) < nodes_of(10, 5, depth=3)


def test_few_values_are_all_drawn_where_folding_would_show_too_little():
    assert nodes_of(2, 25) == nodes_of(2, 25, depth=3)


def test_what_was_said_to_open_more_does():
    blocks = Drawn(bp.draw(recording("gpt2"), open="transformer.h.0").svg)
    assert {"ln_1", "attn", "ln_2", "mlp", "h.1", "h.11"} < set(blocks.nodes)
    assert blocks.frames == ["transformer", "h.0"]
    assert "h.0" not in blocks.nodes


def test_boxes_are_opened_by_patterns():
    opened = Drawn(bp.draw(recording("gpt2"), depth=1, open=["transformer.h.*.attn", "transformer.h.3.mlp"]).svg)
    assert opened.frames.count("attn") == 12
    assert opened.frames.count("mlp") == 1


def test_a_called_function_is_opened_by_its_name():
    def outer(x):
        y = inner(x)
        return y * 2

    def inner(x):
        z = x * 3
        return z + 1

    rec = bp.probe(outer)(torch.tensor(1.0))
    assert "z" not in Drawn(bp.draw(rec, depth=1).svg).nodes
    assert "z" in Drawn(bp.draw(rec, depth=1, open="inner").svg).nodes


def test_a_box_that_is_not_there_is_refused_with_the_nearest():
    text = message(bp.NothingMatched, lambda: bp.draw(recording("gpt2"), open="h.3"))
    assert "the pattern 'h.3' matches nothing in the boxes of this drawing" in text
    assert "next:  bp.draw(rec, open='transformer.h.3')" in text


# what repeats


def test_many_modules_alike_are_folded_where_they_do_not_fit():
    model, ids = small_gpt2(40, 16)
    blocks = Drawn(bp.draw(bp.probe(model, of="loss")(ids, labels=ids)).svg)
    assert [frame for frame in blocks.frames if "…" in frame] == ["h.0 … h.39, 40 times"]
    assert {"first", "last", "weight"} < set(blocks.nodes["ln_1"])


def test_modules_are_folded_with_those_of_their_own_parent():
    titles = [title for title, _ in frames("mixture")]
    frame_titles = shown("mixture").frames
    assert [*titles, *frame_titles].count("experts.0 … experts.3, 4 times") + titles.count("experts.0") == 2


def test_a_gradient_that_is_not_finite_is_never_folded_away():
    def loop(x):
        for at in range(5):
            x = x * (float("inf") if at == 2 else 1.0)
            x = x * 0.0 if at == 2 else x
        return x

    node = Drawn(bp.draw(bp.probe(loop)(torch.tensor(1.0)), roll=True).svg)
    assert any("not finite: the gradient of x" in " ".join(text) for text in node.nodes.values())


# the turns of a loop


def turning(turns):
    """The drawing of a loop of three values a turn, and its size in pixels."""

    def loop(x, w, b):
        total = 0
        for _ in range(turns):
            u = x * w
            v = u + b
            x = torch.tanh(v)
            total = total + x.square()
        return total

    drawing = bp.draw(bp.probe(loop, partials=True)(0.5, 0.9, 0.1))
    data = drawing.png()
    return Drawn(drawing.svg), [int.from_bytes(data[start : start + 4]) for start in (16, 20)]


def test_the_turns_of_a_long_loop_are_drawn_as_one_and_it_says_how_to_open_them():
    shown, (width, height) = turning(14)
    assert {"u#0 … u#13", "v#0 … v#13", "x#1 … x#14", "total#1 … total#14"} < set(shown.nodes)
    assert (width <= PAGE[0], height <= PAGE[1]) == (True, True), (width, height)
    said = " ".join(shown.text)
    chosen = "the turns of a loop and the items of a list as one"
    assert f"not fit a page: drawn with {chosen} for each of them: bp.draw(rec, depth=1)" in said


def test_a_short_loop_is_drawn_turn_by_turn():
    shown, (width, height) = turning(4)
    assert {"u#0", "u#3", "total#4"} < set(shown.nodes)
    assert (width <= PAGE[0], height <= PAGE[1]) == (True, True), (width, height)


@pytest.mark.parametrize("given", ["made", "argument"])
def test_the_items_of_a_long_list_are_drawn_as_one(given):
    def made(w):
        parts = [w * k for k in range(70)]
        total = sum(parts).sum()
        return total

    def argument(parts):
        total = sum(parts).sum()
        return total

    each = [torch.full((3,), float(k)) for k in range(70)]
    drawing = bp.draw(bp.probe(made)(each[1]) if given == "made" else bp.probe(argument)(each))
    data = drawing.png()
    assert int.from_bytes(data[16:20]) <= PAGE[0]
    assert {"parts.0 … parts.69", "total"} < {*Drawn(drawing.svg).nodes, "w"}


def test_the_items_of_a_short_list_are_drawn_one_by_one():
    def made(w):
        parts = [w * k for k in range(4)]
        return sum(parts).sum()

    assert {"parts.0", "parts.1", "parts.2", "parts.3"} < set(Drawn(bp.draw(bp.probe(made)(torch.ones(3))).svg).nodes)


class Cells(torch.nn.Module):
    """Layers of a recurrent network, over as many steps as are given."""

    def __init__(self):
        super().__init__()
        self.cells = torch.nn.ModuleList(torch.nn.RNNCell(4, 4) for _ in range(3))
        self.head = torch.nn.Linear(4, 1)

    def forward(self, steps):
        hidden = [torch.zeros(2, 4) for _ in self.cells]
        for x in steps:
            for at, cell in enumerate(self.cells):
                x = hidden[at] = cell(x, hidden[at])
        return self.head(x).mean()


def test_of_cells_over_many_steps_the_steps_are_drawn_as_one_and_layers_alike_are_not():
    shown = Drawn(bp.draw(bp.probe(Cells())(torch.randn(30, 2, 4))).svg)
    cells = {f"cells.{at}#0 … cells.{at}#29" for at in range(3)}
    assert cells < set(shown.nodes)
    assert all("weight_hh" in shown.nodes[cell] for cell in cells)


# modules that run again


class Siamese(torch.nn.Module):
    """One encoder for two inputs."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))

    def forward(self, one, two):
        return (self.encoder(one) - self.encoder(two)).pow(2).sum()


def test_the_modules_of_a_module_that_runs_again_stand_in_the_box_of_that_run():
    rec = bp.probe(Siamese())(torch.ones(3, 4), torch.zeros(3, 4))
    runs = Drawn(bp.draw(rec).svg)
    first, second = (frame_of(group) for group in runs.groups["cluster"])
    assert runs.frames == ["encoder#0", "encoder#1"]
    for group in runs.groups["node"]:
        title = next(group.iter(f"{SVG}text")).text
        where = [around(box, frame_of(group)) for box in (first, second)]
        assert where == {"0": [True, False], "1": [False, True], "n": [False, False]}[title[-1]], title
