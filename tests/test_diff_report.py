"""Two recordings compared: the floor, the report as text and data, what is refused, and what a measure gives."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from backprobe.backends.rows import Rows
from backprobe.diff.blame import backward_order
from backprobe.diff.measuring import measure
from backprobe.diff.run import compared
from diff_cases import W, X, f, recorded
from goldens import golden
from sampled import sampled

# the floor


def test_the_floor_is_the_root_of_eps_of_the_coarsest_dtype_on_the_way():
    def g(x):
        u = x.bfloat16() * 2
        v = u.float() * 3
        return v.sum()

    def h(x):
        u = x.bfloat16() * 2
        v = u.float() * (3 * (1 + 0.01))
        return v.sum()

    report = bp.diff(bp.probe(g)(X), bp.probe(h)(X))
    assert report.ok and report.complete  # an error of 1 % is within what bfloat16 may do
    (row,) = [row for row in report.rows if row.a.name == "v"]
    assert row.value.floor.dtype == "bfloat16" and row.a.dtype == "float32"
    assert 0.05 < row.value.excess < 0.2
    bp.diff(bp.probe(f)(X, W), bp.probe(f)(X * 1.00003, W)).assert_ok(strict=True)
    assert bp.diff(bp.probe(f)(X, W), bp.probe(f)(X * 1.0005, W)).first.name == "x"


def test_recordings_of_the_reference_measure_the_floor():
    def g(x, noise, wrong):
        u = x * (1 + noise)
        v = torch.sin(u) * wrong
        return v.sum()

    a = bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.0)
    runs = [bp.probe(g, ["u", "v", "return"], wrt="x")(X, noise, 1.0) for noise in (0.001, -0.001)]
    off = bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.002)
    assert bp.diff(a, off).first.name == "v"
    bp.diff(a, off, noise=runs).assert_ok(strict=True)
    assert bp.diff(a, bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.1), noise=runs).first.name == "v"
    same = [bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.0)]
    found = bp.diff(a, bp.probe(g, ["u", "v", "return"], wrt="x")(X, 0.0, 1.00002), noise=same).first
    assert found.name == "v" and found.floor == "measured: 1 other recording"
    assert (found.kind, found.name) == ("value", "v")
    golden("diff", found)


# saved recordings, data, printing


def test_paths_of_saved_recordings_are_compared_as_the_recordings_are(tmp_path):
    def g(x, w):
        u = x * w
        v = torch.cos(u)
        y = v + u
        loss = y.sum()
        return loss

    recorded(f).save(tmp_path / "a")
    recorded(g, X.bfloat16(), W.bfloat16()).save(tmp_path / "b")
    for pair in ((str(tmp_path / "a"), tmp_path / "b"), (bp.load(tmp_path / "a"), bp.load(tmp_path / "b"))):
        report = bp.diff(*pair)
        assert report.first.name == "v" and report.first.floor.startswith("the root of eps of bfloat16")
    bp.diff(tmp_path / "a", recorded(f)).assert_ok(strict=True)


def test_the_report_is_data_that_json_can_hold():
    def g(x, w):
        u = x * w
        v = torch.where(u > 0, torch.nan, u)
        y = v + u
        loss = y.sum()
        return loss

    data = json.loads(json.dumps(bp.diff(recorded(f), recorded(g)).to_dict(), allow_nan=False))
    assert data["ok"] is False and data["first"] == 0 and data["first_backward"] is None
    assert data["findings"][0]["name"] == "v" and data["findings"][0]["error"] == "infinite"
    assert data["findings"][0]["measure"]["clashes"] == 1
    assert {pair["name"]: pair["value"]["differs"] for pair in data["pairs"]}["u"] == ""


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_report_fits_the_page(width):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(6)), nn.Linear(4, 1))
    x = torch.randn(5, 4)
    a = bp.probe(copy.deepcopy(model), of=torch.sum)(x)
    model[3][0].bias.data += 1
    text = bp.diff(a, bp.probe(model, of=torch.sum)(x)).text(width)
    lines = text.split("\n")
    assert max(map(len, [line for line in lines if "/" not in line])) <= width
    assert lines[0].startswith("values differ first at '3.0.bias': ")
    (row,) = [line for line in lines if line.startswith("3.0.bias ")]
    assert row.split()[1] not in ("equal", "") and " ! " in row
    assert any(line.startswith("… ") and line.endswith(" more") for line in lines)


def test_a_report_shows_itself_in_a_notebook():
    page = bp.diff(recorded(f), recorded(f, X + 1, W))._repr_html_()
    assert "the argument &#x27;x&#x27; differs" in page and "<td>x</td>" in page


def test_recordings_without_gradients_are_compared_by_their_values():
    with bp.probe() as rec:
        u = X * W
    with bp.probe() as other:
        u = X * W
    report = bp.diff(rec, other)
    assert report.ok and not report.complete and not report.findings
    golden("diff", report)
    report = bp.diff(recorded(f), rec)
    golden("diff", report)


# bad input


def message_of(kind, **options):
    return message(kind, lambda: bp.diff(recorded(f), recorded(f), **options))


def test_what_is_not_a_recording_is_refused():
    golden("diff", message(bp.BadOption, lambda: bp.diff(recorded(f), None)))
    assert "the first is a function" in message(bp.BadOption, lambda: bp.diff(f, recorded(f)))
    with pytest.raises(bp.BadRecording, match="no such folder"):
        bp.diff("no-such.recording", recorded(f))


def test_recordings_of_unlike_programs_are_refused():
    def other(z):
        s = z.exp()
        return s.sum()

    pair = bp.probe(f, "u", of="u", cotangent=X)(X, W), bp.probe(other, "s", of="s", cotangent=torch.ones(2))(X[:2])
    text = message(bp.BadOption, lambda: bp.diff(*pair))
    assert text.startswith("these recordings have nothing in common\n  asked: bp.diff(a, b)\n  found: 'u'")


@pytest.mark.parametrize(
    ("rename", "kind", "said"),
    [
        ({"hidden": "u"}, bp.NothingMatched, "no name of the first recording is 'hidden'"),
        ({"u": "hidden"}, bp.NothingMatched, "no name of the second recording is ':hidden'"),
        ({"u": "v", "v": "v"}, bp.BadOption, "':u' and ':v' are both renamed to ':v'"),
        ({"u": "v", ":u": ":w"}, bp.BadOption, "two patterns rename ':u'"),
        ({"*": "u"}, bp.BadOption, "both patterns of a rename have the same stars in the same order"),
        ({"": "u"}, bp.BadName, "a pattern of rename is empty"),
        ("u", bp.BadOption, "rename is a dict from patterns of the first's names"),
    ],
)
def test_a_rename_that_cannot_be_right_is_refused(rename, kind, said):
    text = message_of(kind, rename=rename)
    assert text.startswith(said) and "  next:  " in text and "  asked: " in text


@pytest.mark.parametrize(
    ("layout", "kind", "said"),
    [
        ({"nothing": "T"}, bp.NothingMatched, "the pattern 'nothing' matches nothing in either recording"),
        (
            {"nothing": (1, 0)},
            bp.NothingMatched,
            "the pattern 'nothing' matches nothing in either recording\n  asked: layout={'nothing': (1, 0)}\n",
        ),
        ({"x": "transposed"}, bp.BadOption, 'a layout is "T", or the order of the axes'),
        ({"x": (0, 0)}, bp.BadOption, 'a layout is "T", or the order of the axes'),
        ({"x": (1, 0)}, bp.BadOption, "the layout of 'x' is of 2 axes"),
        (3, bp.BadOption, "layout is a dict from patterns of names to axes"),
    ],
)
def test_a_layout_that_cannot_be_right_is_refused(layout, kind, said):
    text = message_of(kind, layout=layout)
    assert text.startswith(said) and "  next:  " in text and "  asked: " in text


def test_recordings_without_entries_have_nothing_in_common():
    with bp.probe() as empty:
        pass
    text = message(bp.BadOption, lambda: bp.diff(empty, recorded(f)))
    assert "  found: nothing in the first, 'x', " in text


def test_several_outputs_are_refused_on_the_side_that_has_them():
    several = bp.probe(lambda x: {"a": x.sum(), "b": x.prod()}, of=["a", "b"])(X)
    text = message(bp.BadOption, lambda: bp.diff(recorded(f), several))
    assert "asked: bp.diff(..., rec)" in text and "bp.diff(..., rec.of('a'))" in text


def test_what_the_noise_did_not_measure_is_said():
    def other(x):
        u = x * 2
        return u.sum()

    report = bp.diff(recorded(f), recorded(f), noise=bp.probe(other)(X))
    (note,) = [note for note in report.notes if note.startswith("noise= has no floor of these")]
    assert "'v'" in note and report.ok and report.complete
    assert not any("noise=" in note for note in bp.diff(recorded(f), recorded(f), noise=recorded(f)).notes)


@pytest.mark.parametrize("noise", [3, [], [3]])
def test_noise_that_cannot_be_right_is_refused(noise):
    golden("diff", message_of(bp.BadOption, noise=noise))


# what a measure gives


def measured(a, b, dtype="", factor=1.0):
    return measure(Rows.of(np.asarray(a)), Rows.of(np.asarray(b)), dtype, factor)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize("apart", sampled([1e-3, 0.5, 3.0], 1e-3, 3.0))
def test_a_measure_is_that_of_double_precision_over_many_chunks(kind, apart):
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(3, 40_000)) * 50).astype(kind)
    b = (a + apart * np.abs(a) * rng.normal(size=a.shape)).astype(kind)
    b[0, 7] = a[0, 7]
    for x, y in ((a, b), (a.T, b.T), (a, np.ascontiguousarray(b.T).T)):
        found = measured(x, y, str(a.dtype))
        wide = [one.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for one in (x, y)]
        error = np.abs(wide[1] - wide[0])
        norms = [np.linalg.norm(one) for one in (*wide, wide[1] - wide[0])]
        assert found.relative == pytest.approx(norms[2] / norms[0], rel=1e-4)
        assert found.reference_rms == pytest.approx(norms[0] / a.size**0.5, rel=1e-4)
        assert found.cosine == pytest.approx(np.vdot(*wide).real / (norms[0] * norms[1]), abs=2e-6)
        assert found.differing == np.count_nonzero(error)
        if a.dtype.kind != "c":  # of a complex number, the larger of its parts
            assert found.largest == pytest.approx(error.max(), rel=1e-4) and error[found.at] == error.max()
            lies = error.T if x.flags.f_contiguous and y.flags.f_contiguous else error
            first = tuple(map(int, np.argwhere(lies)[0]))
            assert found.first == (first if lies is error else first[::-1])


def test_numbers_of_bfloat16_are_compared_by_their_bits():
    bits = np.array([0x3F80, 0x3F81, 0xC000, 0x7FC0], np.uint16)  # 1, the next one, -2, NaN
    a, b = Rows(bits, "bfloat16"), Rows(bits[[0, 0, 2, 3]], "bfloat16")
    found = measure(a, b, "bfloat16")
    assert (found.differing, found.first, found.ulps, found.clashes) == (1, (1,), 1, 0)
    assert found.largest == 2**-7 and not measure(a, a, "bfloat16").differing
    other = Rows.of(np.array([1.0, 1.0, -2.0, np.nan], np.float32))
    assert measure(a, other, "bfloat16").ulps == 1 and measure(a, b, "bfloat16", 2.0).differing == 3


def test_units_in_the_last_place_are_counted_up_to_a_factor_of_two():
    one = np.float32(1.0)
    assert measured([one], [np.nextafter(one, np.float32(2))], "float32").ulps == 1
    assert measured([np.float32(1e-45)], [np.float32(-1e-45)], "float32").ulps == 2
    assert measured([one, one], [one, -one], "float32").ulps == 2**24
    assert measured([np.float64(1.0)], [np.float64(1 + 2**-30)], "float64").ulps == 2**22


def test_gradients_are_in_the_order_in_which_backward_came_to_them():
    """Also those that it came to in the second recording alone, behind what it came to before them there."""

    def program(x, shown):
        start = x
        for _ in range(3):
            u = torch.sin(x)
            x = u if shown else u.detach()
        return x.sum() + start.sum()

    a, b = bp.probe(lambda x: program(x, True))(X), bp.probe(lambda x: program(x, False))(X)
    one, other = compared(a.record, b.record, None, None, None), compared(b.record, a.record, None, None, None)
    for both in (one.comparison, other.comparison):
        order = backward_order(both)
        assert sorted(order) == list(range(len(both.pairs)))
        places = [order.index(both.of_a[at]) for at in both.a.record.backward if at in both.of_a]
        assert places == sorted(places)


def test_one_row_is_never_left_out_of_the_table():
    """To say so would take a line as well."""

    def chain(count, off):
        def f(x):
            for at in range(count):
                x = x * 1.5 + (off if at == count - 1 else 0.0)
            return x

        return bp.probe(f)(1.0)

    for count in range(3, 9):
        said = str(bp.diff(chain(count, 0.0), chain(count, 0.5)))
        assert "… 1 more" not in said, count
    assert "… 13 more" in said
