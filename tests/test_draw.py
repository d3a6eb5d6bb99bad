"""Circuits: what a drawing says, in the words of the drawn SVG itself."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from asked import message
from drawn import SVG, Drawn
from small_models import small_gpt2


def toy(x, w, b):
    u = x * w
    v = u + b
    a = F.relu(v)
    return a


def func(x):
    z = 2 * x
    return z


def func2(z):
    y = z**2 + 2 * z + 2
    return y


def composed(x):
    z = func(x)
    y = func2(z)
    return y


def drawn(function, *args, probe=None, **options):
    return Drawn(bp.draw(bp.probe(function, partials=True, **(probe or {}))(*args), **options).svg)


# the cases that backprobe began with


def test_s8_called_functions_are_boxes_around_what_they_compute():
    shown = drawn(composed, 1.0)
    assert shown.frames == ["func", "func2"]
    assert shown.nodes == {
        "x": ["= 1", "∂y/∂x = 12"],
        "z": ["2 * x", "= 2", "∂y/∂z = 6"],
        "y": ["z ** 2 + 2 * z + 2", "= 10", "∂y/∂y = 1"],
    }
    assert shown.edges == {("x", "z"): "2", ("z", "y"): "6"}


def test_upstream_times_local_on_request():
    assert drawn(composed, 1.0, contributions=True).edges == {("x", "z"): "6 × 2 = 12", ("z", "y"): "1 × 6 = 6"}


def test_the_check_of_the_path_sums_stands_below():
    shown = drawn(toy, 3.0, 2.0, 1.0)
    assert "the sum over paths of products of partials agrees with 6 gradients, exactly" in shown.text
    assert "gradients are of a" in shown.text


# gradients that are special


def special(x, w, n):
    zero = x * 0.0
    r = torch.sqrt(zero)
    cut = (x * w).detach()
    with torch.no_grad():
        quiet = w * 2
    unused = w.exp()
    index = n + 1
    k = 3
    none = w * 0
    return x * w + r * cut + quiet * k + index.float() + none * none


@pytest.fixture(scope="module")
def specials():
    args = torch.tensor(3.0), torch.tensor(2.0), torch.tensor(4)
    return drawn(special, *args, probe={"wrt": ["x", "w"]})


def said(shown, name):
    return " ".join(shown.nodes[name])


def test_a_gradient_that_is_not_finite_says_where_it_arises(specials):
    assert "∂return/∂zero = inf not finite: it arises on the way from r, whose gradient is finite" in said(
        specials, "zero"
    )
    assert "not finite: it came with the gradient of zero" in said(specials, "x")
    assert {"nonfinite"} == {"nonfinite"} & specials.classes["zero"]


def test_a_gradient_that_is_zero_says_why(specials):
    assert "∂return/∂none = 0 zero: every local partial onward is 0" in said(specials, "none")
    assert "zero" in specials.classes["none"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut", "no gradient: detached it was computed from differentiated values, but has no gradient history"),
        ("quiet", "no gradient: no_grad it was computed under torch.no_grad()"),
        ("unused", "no gradient: not_connected no path leads from it to the output"),
        ("index", "no gradient: not_float its dtype is int64"),
    ],
)
def test_a_gradient_that_is_missing_says_why(specials, name, words):
    assert words in said(specials, name)
    assert "missing" in specials.classes[name]


def test_zero_not_finite_and_missing_differ_without_colour(specials):
    """By the border alone: dashes, dots, and width."""

    def border(name):
        group = next(g for g in specials.groups["node"] if next(g.iter(f"{SVG}text")).text == name)
        shape = next(part for part in group.iter() if part.tag in (f"{SVG}path", f"{SVG}polygon"))
        return shape.get("stroke-dasharray"), shape.get("stroke-width")

    assert len({border(name) for name in ("return", "none", "zero", "cut")}) == 4


def test_what_is_read_without_a_derivative_is_a_dashed_edge(specials):
    assert specials.edges["x", "cut"] == ""
    assert ("k", "return") in specials.edges
    dashed = [g for g in specials.groups["edge"] if "cut" in g.get("class").split()]
    assert len(dashed) == 8
    assert all(next(g.iter(f"{SVG}path")).get("stroke-dasharray") for g in dashed)
    assert "dashed line: read, but nothing flows back" in specials.text


# tensors


def test_a_tensor_is_drawn_by_shape_rms_and_magnitude():
    def layer(x, w):
        h = torch.tanh(x @ w)
        return (h**2).sum()

    torch.manual_seed(0)
    shown = drawn(layer, torch.randn(5, 4), torch.randn(4, 8))
    assert re.fullmatch(r"= 5×8 float32 rms [\d.]+ max [\d.]+", shown.nodes["h"][1])
    assert re.fullmatch(r"gradient rms [\d.]+ max [\d.]+", shown.nodes["h"][2])
    assert re.fullmatch(r"rms [\d.]+", shown.edges["x", "h"])


def test_the_fill_follows_the_magnitude_of_the_gradient():
    def program(x):
        small = x * 1e-3
        smaller = small * 1e-2
        return smaller * 1.0

    shown = drawn(program, 1.0)
    level = {
        name: int(next(c for c in classes if c.startswith("level"))[5:]) for name, classes in shown.classes.items()
    }
    assert level["return"] == 4
    assert level["small"] == 2
    assert level["x"] == 0
    assert any(line.startswith("fill and line width") for line in shown.text)


# large graphs


@pytest.fixture(scope="module")
def gpt2():
    model, tokens = small_gpt2(4)
    return bp.probe(model, of="loss", partials=True)(tokens, labels=tokens)


def test_depth_1_shows_the_outermost_modules(gpt2):
    shown = Drawn(bp.draw(gpt2, depth=1).svg)
    assert list(shown.nodes) == ["transformer", "lm_head", "return.loss"]
    assert set(shown.edges) == {("transformer", "lm_head"), ("lm_head", "return.loss")}


def test_depth_2_shows_the_blocks_inside(gpt2):
    shown = Drawn(bp.draw(gpt2, depth=2).svg)
    blocks = ["wte", "wpe", "h.0", "h.1", "h.2", "h.3", "ln_f", "drop"]
    assert set(blocks) < set(shown.nodes)
    assert shown.frames == ["transformer"]
    assert {("drop", "h.0"), ("h.0", "h.1"), ("h.2", "h.3"), ("h.3", "ln_f")} < set(shown.edges)
    assert " 10 values, 12 parameters" in shown.nodes["h.0"]


def test_modules_that_repeat_are_rolled_up(gpt2):
    shown = Drawn(bp.draw(gpt2, depth=2, roll=True).svg)
    assert "h.0 … h.3" in shown.nodes
    assert shown.nodes["h.0 … h.3"][:2] == [" 4 times, each 10 values, 12 parameters", "first"]
    assert ("h.0 … h.3", "h.0 … h.3") in shown.edges


def looping(x, a):
    h = x
    for _ in range(6):
        h = torch.tanh(h * a)
    return h


def test_the_bindings_of_a_loop_are_rolled_up():
    assert len(drawn(looping, 0.5, 1.5).nodes) == 8
    shown = drawn(looping, 0.5, 1.5, roll=True)
    assert set(shown.nodes) == {"x", "a", "h#1 … h#6"}
    assert shown.nodes["h#1 … h#6"][:2] == [" 6 times", "torch.tanh(h * a)"]
    assert ("h#1 … h#6", "h#1 … h#6") in shown.edges


def masked(x, m):
    out = x
    for _ in range(14):
        out = out * m
    return out


def test_a_value_used_in_dozens_of_places_is_drawn_apart():
    args = torch.tensor(0.5), torch.tensor(1.0)
    shown = drawn(masked, *args, probe={"wrt": "x"})
    names = [next(g.iter(f"{SVG}text")).text for g in shown.groups["node"]]
    assert names.count("m") == 15
    assert any("flows into 14 others, and is named there" in text for text in shown.text)
    together = drawn(masked, *args, probe={"wrt": "x"}, apart=15)
    assert len(together.groups["node"]) == 16


def test_more_than_can_be_seen_is_collapsed_and_says_so():
    model, tokens = small_gpt2(8)
    rec = bp.probe(model, ["**", "**:*"], of="loss")(tokens, labels=tokens)
    said = " ".join(Drawn(bp.draw(rec).svg).text)
    assert "571 values do not fit a page: drawn with depth=2, roll=True for more: bp.draw(rec, depth=3), " in said
    assert "open='transformer.h." in said


def test_more_than_can_be_laid_out_is_refused():
    def long(x):
        for _ in range(2600):
            x = x * 1.0
        return x

    rec = bp.probe(long)(1.0)
    with pytest.raises(bp.BadOption, match=r"too many to draw(.|\n)*roll=True"):
        bp.draw(rec, depth=1)
    assert set(Drawn(bp.draw(rec, roll=True).svg).nodes) == {"x#0", "x#1 … x#2600"}


# escaping


def test_texts_of_the_users_show_as_their_text():
    nasty = ["<script>alert(1)</script>", "\\N", "a\\\\N\\G", "<b>", "&amp;", "]]>", "\x00\x07", "\"'", "{a|b}", "–ü世"]

    def program(x):
        out = {key: x * (at + 1) for at, key in enumerate(nasty)}
        return sum(out.values())

    shown = drawn(program, 1.0)
    for key in nasty:
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in key)
        assert any(text in line for line in shown.nodes), key
    assert not list(shown.root.iter(f"{SVG}script"))


def test_a_lambda_and_odd_module_keys_show_as_their_text():
    assert "<lambda>" in drawn(lambda x: (lambda y: y * 2)(x), 3.0).frames
    model = torch.nn.ModuleDict({"<b>\\N": torch.nn.Linear(2, 2), "a:b": torch.nn.Linear(2, 1)})
    model.forward = lambda x: model["a:b"](model["<b>\\N"](x)).sum()
    shown = Drawn(bp.draw(bp.probe(model, partials=True)(torch.ones(2))).svg)
    assert "<b>\\N" in " ".join(shown.text)
    assert "`a:b`" in " ".join(shown.text)


def test_an_expression_that_looks_like_markup_or_an_escape():
    def program(x):
        y = x * len("<i>\\N\\l</i>")
        return y

    assert drawn(program, 1.0).nodes["y"][0] == r"x * len('<i>\\N\\l</i>')"


def test_two_drawings_on_one_page_keep_their_styles_and_identifiers_apart():
    one, two = (bp.draw(bp.probe(f, partials=True)(2.0)).svg for f in (composed, looping_once))
    identifiers = [set(re.findall(r'id="([^"]*)"', svg)) for svg in (one, two)]
    assert not identifiers[0] & identifiers[1]
    for svg in (one, two):
        style = svg.split("<style>")[1].split("</style>")[0]
        selectors = [line.split("{")[0].strip() for line in style.splitlines() if "{" in line]
        assert len(selectors) > 10
        assert all(selector.startswith(("#bp", "@media")) for selector in selectors)


def looping_once(x):
    return torch.tanh(x)


def test_the_drawing_is_self_contained_and_knows_dark():
    svg = bp.draw(bp.probe(toy)(3.0, 2.0, 1.0)).svg
    assert "prefers-color-scheme: dark" in svg
    assert "@media screen" in svg  # printed as it is in light
    assert not re.search(r"""(href|src)\s*=|url\(|@import""", svg)
    assert svg.startswith("<svg")


# asking


def test_it_shows_itself_and_is_written_to_a_file(tmp_path):
    rec = bp.probe(toy, partials=True)(3.0, 2.0, 1.0)
    drawing = bp.draw(rec, tmp_path / "toy.svg")
    assert (tmp_path / "toy.svg").read_text() == drawing.svg == drawing._repr_svg_()
    shown = drawing._repr_html_()
    assert drawing.svg.split("</style>")[1] in shown
    assert "prefers-color-scheme" not in shown  # a notebook has a theme of its own
    bp.draw(rec, str(tmp_path / "toy.PNG"))
    assert (tmp_path / "toy.PNG").read_bytes().startswith(b"\x89PNG")
    bp.draw(rec, tmp_path / "toy.pdf")
    assert (tmp_path / "toy.pdf").read_bytes().startswith(b"%PDF") and drawing.pdf().rstrip().endswith(b"%%EOF")
    assert repr(drawing) == "<backprobe.Drawing of 6 nodes and 5 edges>"


def test_the_same_recording_is_drawn_the_same():
    rec = bp.probe(toy, partials=True)(3.0, 2.0, 1.0)
    assert bp.draw(rec).svg == bp.draw(rec).svg


def test_without_partials_the_drawing_says_how_to_get_them():
    shown = Drawn(bp.draw(bp.probe(toy)(3.0, 2.0, 1.0)).svg)
    assert set(shown.edges.values()) == {""}
    assert "local partials were not recorded: bp.probe(..., partials=True) writes them on the edges" in shown.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"depth": 0}, "depth is a whole number from 1 on"),
        ({"depth": "2"}, "depth is a whole number from 1 on"),
        ({"apart": 0}, "apart is a whole number from 1 on"),
        ({"direction": "LR"}, "direction is one of right, down"),
        ({"path": "toy.gif"}, "a drawing is saved as .svg, .pdf, .png or .html"),
        ({"path": "toy"}, "no ending"),
        ({"path": f"{__file__}/toy.svg"}, "test_draw.py is a file"),
        ({"contributions": True}, "a recording without partials"),
    ],
)
def test_bad_options_say_what_to_write(options, text):
    assert text in message(bp.BadOption, lambda: bp.draw(bp.probe(toy)(3.0, 2.0, 1.0), **options))


def test_only_recordings_are_drawn():
    with pytest.raises(bp.BadOption, match="draw draws a recording, not an int"):
        bp.draw(3)


def test_a_recording_that_was_saved_is_drawn_as_before(tmp_path):
    rec = bp.probe(composed, partials=True)(1.0)
    rec.save(tmp_path / "saved")
    for to in ("torch", "numpy"):
        assert Drawn(bp.draw(bp.load(tmp_path / "saved", to=to)).svg).nodes == Drawn(bp.draw(rec).svg).nodes


def test_the_svg_is_well_formed_for_every_strange_value():
    def strange(x, z):
        nan = x / 0 * 0
        empty = x[:0]
        big = x * 1e30
        return (nan.sum() + empty.sum() + big.sum()) * z.abs()

    rec = bp.probe(strange, partials=True)(torch.ones(3), torch.tensor(1 + 2j))
    ElementTree.fromstring(bp.draw(rec).svg)


# why a gradient is zero


def test_a_gradient_is_zero_where_what_it_flows_into_is_off_or_leads_nowhere():
    def program(b, w):
        unused = b * 5
        dead = F.relu(b - 10)
        return dead + w

    assert "zero: every local partial onward is 0" in drawn(program, 1.0, 2.0).nodes["b"]


def test_a_cotangent_of_zero_is_called_so():
    shown = drawn(lambda x: x * 2, 1.0, probe={"cotangent": 0.0})
    assert "zero: the cotangent is 0" in shown.nodes["return"]


# many edges


def test_what_gradients_flow_through_is_never_torn_apart():
    def dense(x):
        values = [x * 1.0]
        for _ in range(15):
            y = sum(values) * 0.1
            values.append(y)
        return y

    shown = drawn(dense, 1.0, depth=1)
    assert len(shown.groups["node"]) == 17


def test_an_edge_along_which_something_not_finite_flows_looks_so(specials):
    edge = next(g for g in specials.groups["edge"] if "nonfinite" in g.get("class").split())
    assert next(edge.iter(f"{SVG}path")).get("stroke-width") == "3.5"


def test_a_module_key_that_looks_like_a_count_is_a_key():
    model = torch.nn.ModuleDict({"c#1": torch.nn.Linear(2, 1)})
    model.forward = lambda x: model["c#1"](x).sum()
    shown = Drawn(bp.draw(bp.probe(model, partials=True)(torch.ones(2))).svg)
    assert set(shown.nodes) == {"`c#1`", "return"}
    assert {"weight", "bias"} < set(shown.nodes["`c#1`"])
