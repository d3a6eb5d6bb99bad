"""The viewer's server: what it answers, and each of the requests that it refuses."""

import base64
import hashlib
import json
import socket
import time
import tracemalloc
import urllib.request
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode

import numpy
import pytest
import torch

import backprobe as bp
from backprobe.storage.runs.layout import StepData
from backprobe.storage.runs.reduced import stretches_of_nonfinite
from written_runs import fill, matrix, rows, step, writer

HOSTILE = "</script><script>alert(1)</script>"


def tripled(x):
    return x * 3


@pytest.fixture
def folder(tmp_path):
    one = writer(tmp_path / "runs" / "first")
    one.add_rows([*rows(["a", HOSTILE]), *rows(["loss"], ["logged"])])
    fill(one, range(20), 5)
    one.close()
    return tmp_path / "runs"


@pytest.fixture
def viewer(folder):
    with bp.view(folder, open=False) as opened:
        yield opened


class Asker:
    """Requests to a viewer, with whatever headers."""

    def __init__(self, viewer):
        address, _, self.token = viewer.url.partition("#token=")
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def __call__(self, path, headers=None, method="GET", token=True, host=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        sent = {"Host": host or f"127.0.0.1:{self.port}"} | ({"X-Backprobe-Token": self.token} if token else {})
        connection.putrequest(method, path, skip_host=True)
        for key, value in {**sent, **(headers or {})}.items():
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.body = answer.read()
        connection.close()
        return answer

    def json(self, question, **query):
        answer = self(f"/answer/{question}?{urlencode(query)}")
        assert answer.status == 200, answer.body
        return unpacked(answer.body)


def unpacked(body):
    size = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + size])
    at = 4 + size
    for name, kind, length in head.pop("arrays"):
        head[name] = numpy.frombuffer(body, f"<{kind}", length, at)
        at += 4 * length
    assert at == len(body)
    return head


@pytest.fixture
def ask(viewer):
    return Asker(viewer)


# what it gives


def test_the_page_is_given_to_whoever_asks_and_holds_nothing_of_a_run(ask, folder):
    answer = ask("/", token=False)
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (
        b"alert(1)" not in answer.body
        and str(folder).encode() not in answer.body
        and ask.token.encode() not in answer.body
    )


def test_a_grid_has_the_numbers_of_the_run(ask, folder):
    found = ask.json("grid", run=0, field="grad.rms", bins=100)
    with bp.open_run(folder / "first") as run:
        names, steps, grid = run.grid("grad.rms")
    assert found["names"] == names and found["first"].tolist() == found["last"].tolist() == steps.tolist()
    assert numpy.array_equal(found["greatest"].reshape(grid.shape), grid.astype("f4"))
    assert "least" not in found  # each bin is one step


def test_a_row_stands_for_all_names_below_it(tmp_path):
    one = writer(tmp_path)
    one.add_rows(rows(["h.0", "h.0.a", "h.01", "h.1:u", "x"], ["grad"]))
    fill(one, range(9), 5)
    one.close()
    with bp.view(tmp_path, open=False) as viewer, bp.open_run(tmp_path) as run:
        found = Asker(viewer).json("grid", run=0, field="grad.rms", bins=3, rows=json.dumps(["h.0*", "h*", "x", "no"]))
        names, _, grid = run.grid("grad.rms")
    by_bin = grid.reshape(5, 3, 3)
    for at, chosen in enumerate([["h.0", "h.0.a"], ["h.0", "h.0.a", "h.01", "h.1:u"], ["x"]]):
        part = by_bin[[names.index(name) for name in chosen]]
        assert found["greatest"].reshape(4, 3)[at] == pytest.approx(part.max(axis=(0, 2)))
        assert found["least"].reshape(4, 3)[at] == pytest.approx(part.min(axis=(0, 2)))
    assert numpy.isnan(found["greatest"].reshape(4, 3)[3]).all()


def test_all_numbers_of_a_step_are_those_of_the_run(ask, folder):
    with bp.open_run(folder / "first") as run:
        for name, fields in run.at(7).items():
            found = ask.json("step", run=0, step=7, name=name)["names"][name]
            assert {field: float(number) for field, number in found.items()} == pytest.approx(fields, nan_ok=True)
    assert ask.json("step", run=0, step=99) == {"step": None, "names": {}}


def test_alerts_and_gaps_are_those_of_the_run(ask, folder):
    found = ask.json("alerts", run=0)
    with bp.open_run(folder / "first") as run:
        assert [one["headline"] for one in found["alerts"]] == [one.headline for one in run.alerts]
        assert [one["headline"] for one in found["gaps"]] == [one.headline for one in run.gaps]


def test_a_run_that_grows_is_told_of(folder):
    """Also one that was not there; each step is there for whoever asks after it was committed."""
    with bp.view(folder, open=False) as viewer:
        ask = Asker(viewer)
        request = urllib.request.Request(
            f"http://127.0.0.1:{ask.port}/events", headers={"X-Backprobe-Token": ask.token}
        )
        with urllib.request.urlopen(request, timeout=5) as events:
            heard = lambda: json.loads(next(line for line in events if line.startswith(b"data: "))[6:])["runs"]
            assert [(one["label"], one["steps"], one["state"]) for one in heard()] == [("first", 20, "ended")]
            two = writer(folder / "second")
            two.add_rows(rows(["a"], ["grad"]))
            two.append(step(0, 1))
            two.commit()
            while len(found := heard()) < 2 or not found[1]["steps"]:
                pass
            assert (found[1]["label"], found[1]["steps"], found[1]["state"]) == ("second", 1, "written")
            two.abandon()  # as a process that is killed
            while (found := heard())[1]["state"] == "written":
                pass
            assert found[1]["state"] == "died"


def test_a_run_that_is_made_again_is_read_again(folder):
    with bp.view(folder, open=False) as viewer:
        ask = Asker(viewer)
        assert ask.json("runs")["runs"][0]["steps"] == 20
        (folder / "first" / "rank-0.sqlite").unlink()
        one = writer(folder / "first")
        one.add_rows(rows(["b"], ["grad"]))
        fill(one, range(3), 1)
        one.close()
        assert ask.json("runs")["runs"][0]["steps"] == 3 and ask.json("about", run=0)["names"] == ["b"]


def test_a_damaged_run_is_said_to_be_one(folder):
    file = folder / "first" / "rank-0.sqlite"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with bp.view(folder, open=False) as viewer:
        ask = Asker(viewer)
        found = ask.json("runs")["runs"][0]
        if found["state"] != "damaged":  # the cut is behind what is read for that
            assert ask("/answer/grid?run=0&field=grad.rms").status == 409
        else:
            assert "damaged" in found["error"]


# what it refuses


def test_only_this_machine_reaches_it(viewer, ask):
    assert viewer._server.server_address[0] == "127.0.0.1"
    other = [found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in {*other} - {"127.0.0.1"}:
        with pytest.raises(OSError):
            socket.create_connection((address, ask.port), timeout=1)


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "localhost:1", "127.0.0.1.example.com:{}", "[::1]:{}"])
@pytest.mark.parametrize("path", ["/", "/answer/runs", "/events"])
def test_a_foreign_host_is_misdirected(ask, host, path):
    """A name of another site may lead here: then its page asks with its own name."""
    assert ask(path, host=host.format(ask.port)).status == 421


def test_both_names_of_this_machine_are_its_own(ask):
    assert ask("/answer/runs", host=f"localhost:{ask.port}").status == 200


@pytest.mark.parametrize("token", ["", "x", "é", "{}x"])
@pytest.mark.parametrize("path", ["/answer/runs", "/answer/grid?run=0&field=grad.rms", "/events", "/answer/nothing"])
def test_without_the_token_nothing_is_answered(ask, path, token):
    assert ask(path, token=False).status == 403
    given = token.format(ask.token).encode("latin-1").decode("latin-1")
    assert ask(path, {"X-Backprobe-Token": given}, token=False).status == 403


def test_a_cookie_or_a_query_is_no_token(ask):
    assert ask("/answer/runs", {"Cookie": f"token={ask.token}"}, token=False).status == 403
    assert ask(f"/answer/runs?token={ask.token}", token=False).status == 403
    assert "Set-Cookie" not in ask("/").headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_is_forbidden(ask, site):
    """Even with the token; but a link to the page, which holds nothing, may be on any page."""
    for path in ("/answer/runs", "/events"):
        assert ask(path, {"Sec-Fetch-Site": site}).status == 403
        assert ask(path, {"Origin": "http://example.com"}).status == 403
        assert ask(path, {"Origin": "null"}).status == 403
    assert ask("/", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).status == 403
    assert ask("/", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status == 200


@pytest.mark.parametrize("path", ["/", "/answer/runs"])
def test_no_other_origin_is_allowed_anything(ask, path):
    answer = ask(path, {"Origin": f"http://127.0.0.1:{ask.port}"})
    assert answer.status == 200
    assert not [key for key in answer.headers if key.lower().startswith("access-control")]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
def test_it_only_reads(ask, method):
    assert ask("/answer/runs", method=method).status == 405


@pytest.mark.parametrize("run", ["-1", "1", "99", "first", "../first", "/etc", "0.0", ""])
def test_runs_are_meant_by_number(ask, run):
    assert ask(f"/answer/about?{urlencode({'run': run})}").status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/answer/..%2f..%2fetc%2fpasswd",
        "/answer/brief?run=0",
        "/answer/__init__?run=0",
        "/answer/grid",
        "/etc/passwd",
        "//example.com/",
        "/answer/grid?run=0&field=grad.rms&bins=1000000000",
        "/answer/grid?run=0&field=grad.rms&bins=0",
        "/answer/grid?run=0&field=grad.rms&rows=nonsense",
        "/answer/grid?run=0&field=grad.rms&rows=1",
        "/answer/step?run=0&step=x",
        "/answer/magnitudes?run=0",
    ],
)
def test_what_is_no_question_is_refused(ask, path):
    assert ask(path).status == 400
    assert ask.json("runs")["runs"]  # and it goes on


def test_a_field_that_there_is_not_is_refused_in_words(ask):
    answer = ask("/answer/grid?run=0&field=grad.nothing")
    assert answer.status == 409 and json.loads(answer.body)["error"] == "this run has no such field"


@pytest.mark.parametrize("path", ["/", "/answer/runs", "/answer/nothing"])
def test_each_answer_has_the_headers_that_keep_it_apart(ask, path):
    headers = ask(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    assert not headers["Server"].strip().startswith("Python") and "Python" not in headers["Server"]


def test_the_policy_allows_its_own_scripts_alone(ask):
    policy = ask("/").headers["Content-Security-Policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'" and parts["connect-src"] == "'self'"
    assert parts["script-src"].startswith("'sha256-") and parts["style-src"].startswith("'sha256-")
    assert parts["frame-ancestors"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert "unsafe" not in policy and "*" not in policy


def test_nothing_is_answered_after_it_was_closed(folder):
    viewer = bp.view(folder, open=False)
    ask = Asker(viewer)
    assert ask("/").status == 200
    kept = HTTPConnection("127.0.0.1", ask.port, timeout=5)
    kept.request("GET", "/")
    assert kept.getresponse().read()
    viewer.close()
    viewer.close()
    with pytest.raises(OSError):
        ask("/")
    with pytest.raises((OSError, HTTPException)):
        kept.request("GET", "/")
        kept.getresponse()
    kept.close()


def test_a_circuit_is_given_to_who_has_the_token_and_its_script_may_run(folder):
    rec = bp.probe(tripled, backend="torch")(2.0)
    with bp.view(folder, rec, bp.draw(rec, depth=1), open=False) as viewer:
        ask = Asker(viewer)
        assert ask.json("others") == {"others": [{"kind": "circuit", "title": "gradients are of return"}] * 2}
        values = ask.json("other", other=0)["shown"]["values"]
        assert {one["name"]: one["value"] for one in values} == {"x": "2", "return": "6"}
        assert ask.json("names", other=1) == {"names": ["x", "return"]}
        for question in ("other?other=2", "other?other=-1", "other?other=x", "names?other=2", "other"):
            assert ask(f"/answer/{question}").status == 400
        for question in ("others", "other?other=0", "names?other=0", "circuit"):
            assert ask(f"/answer/{question}", token=False).status == 403
        script = ask.json("circuit")["script"].encode()
        hashed = base64.b64encode(hashlib.sha256(script).digest()).decode()
        assert f"'sha256-{hashed}'" in ask("/").headers["Content-Security-Policy"]


# bad input


@pytest.mark.parametrize(
    "given, options",
    [
        (("no such folder",), {}),
        ((3,), {}),
        (("",), {}),
        ((".",), {"port": -1}),
        ((".",), {"port": 65536}),
        ((".",), {"port": True}),
        ((".",), {"port": "80"}),
        ((".",), {"open": 1}),
    ],
)
def test_bad_input_is_refused_in_words(given, options):
    with pytest.raises((bp.BadOption, bp.BadRun)) as raised:
        bp.view(*given, **options)
    assert raised.value.asked and raised.value.next


def test_a_recording_of_several_outputs_is_shown_one_by_one():
    rec = bp.probe(lambda x: {"a": x * 2, "b": x * 3}, of=["a", "b"], backend="torch")(2.0)
    with pytest.raises(bp.BadOption) as raised:
        bp.view(rec, open=False)
    assert raised.value.next.startswith("bp.view(rec.of(")


def test_a_port_that_is_taken_is_said(folder, ask):
    with pytest.raises(bp.BadOption, match=f"port {ask.port} cannot be had"):
        bp.view(folder, port=ask.port, open=False)


def test_a_step_is_seen_within_two_seconds_of_its_end(tmp_path):
    """Of a training whose steps are slow: none waits for others to be written with it."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bp.watch(model, tmp_path / "run", optimizer=optimizer), bp.view(tmp_path, open=False) as viewer:
        ask = Asker(viewer)
        for _ in range(2):  # a step may be logged to until the next has begun
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        ended = time.monotonic()
        while not (runs := ask.json("runs")["runs"]) or not runs[0]["steps"]:
            time.sleep(0.05)
        assert time.monotonic() - ended < 2
        assert runs[0]["state"] == "written"  # by this very process, whose lock it is
    with bp.view(tmp_path, open=False) as viewer:
        assert Asker(viewer).json("runs")["runs"][0]["state"] == "ended"


def test_nan_of_a_run_that_grows_are_those_of_all_its_steps(tmp_path):
    """Stretches that go on, and steps that are made anew when the training is resumed."""

    def go_on(steps, bad):
        one = writer(tmp_path)
        one.add_rows(rows(["a", "b"], ["grad"]))
        for number in steps:
            made = matrix(number, 2)
            made[1, [at for at, name in enumerate("ab") if (name, number) in bad]] -= 1  # fewer are finite
            one.append(StepData(number, made, 0.0, 1))
        one.close()

    with bp.view(tmp_path, open=False) as viewer:
        for steps, bad in (
            (range(10), {("a", 3), ("a", 4), ("b", 9)}),
            (range(10, 14), {("b", 10), ("b", 11), ("a", 13)}),
            (range(14, 16), set()),
            (range(8, 12), {("a", 10)}),
            (range(12, 20), {("b", 19)}),
        ):
            go_on(steps, bad)
            found = Asker(viewer).json("nonfinite", run=0)
            with bp.open_run(tmp_path) as run:
                whole = stretches_of_nonfinite(run._reader)[0]
            assert found["stretches"] == [[one.name, one.kind, one.first, one.last, one.count] for one in whole]
            assert found["rest"] is None


def test_a_picture_of_very_many_names_is_not_copied(tmp_path):
    """What the answer takes beside the bins that are kept, as often as it is large."""
    one = writer(tmp_path / "run")
    one.add_rows(rows([f"h.{at}" for at in range(2000)], ["grad"]))
    made = matrix(0, 2000)
    for number in range(1101):
        one.append(StepData(number, made, 0.0, 1))
        if number % 100 == 99:
            one.commit()
    one.close()
    query = {"run": "0", "field": "grad.rms", "bins": "600"}
    with bp.view(tmp_path / "run", open=False) as opened:
        answers = opened._server.answers
        answers.answer("grid", query)  # its bins are kept now
        tracemalloc.start()
        try:
            size = sum(map(len, answers.answer("grid", query)))
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert size > 4e6 and most < 1.7 * size, (most, size)


def test_a_recording_in_a_folder_is_shown_beside_its_runs(folder):
    """It is read when it is looked at; one that is damaged is told of, and hides nothing else."""
    bp.probe(tripled)(torch.tensor(2.0)).save(folder / "first" / "bad")
    bp.probe(tripled)(torch.tensor(2.0)).save(folder / "cut")
    (folder / "cut" / "recording.json").write_text("{")
    with bp.view(folder, open=False) as opened:
        ask = Asker(opened)
        titles = [one["title"] for one in json.loads(unpacked_head(ask("/answer/others").body))["others"]]
        assert titles == ["runs/cut", "runs/first/bad"]
        assert "x" in json.loads(unpacked_head(ask("/answer/names?other=1").body))["names"]
        cut = ask("/answer/other?other=0")
        assert cut.status == 409 and "cut" in json.loads(cut.body)["error"]
        assert ask("/answer/about?run=0").status == 200


def test_a_recording_that_is_saved_while_one_looks_appears(folder):
    """As new steps do; what is saved anew in its place is read anew, and one that is being written is not shown."""
    with bp.view(folder, open=False) as opened:
        ask = Asker(opened)
        request = urllib.request.Request(
            f"http://127.0.0.1:{ask.port}/events", headers={"X-Backprobe-Token": ask.token}
        )
        with urllib.request.urlopen(request, timeout=30) as events:
            heard = lambda: json.loads(next(line for line in events if line.startswith(b"data: "))[6:])["others"]
            assert heard() == []
            bp.probe(tripled)(torch.tensor(2.0)).save(folder / ".backprobe-half")
            bp.probe(tripled)(torch.tensor(2.0)).save(folder / "first" / "bad")
            while not (found := heard()):
                pass
            assert [(one["kind"], one["title"]) for one in found] == [("circuit", "runs/first/bad")]
            assert "v" not in json.loads(unpacked_head(ask("/answer/names?other=0").body))["names"]
            bp.probe(renamed)(torch.tensor(2.0)).save(folder / "first" / "bad", overwrite=True)
            while heard() == found:
                pass
            assert "v" in json.loads(unpacked_head(ask("/answer/names?other=0").body))["names"]


def renamed(x):
    v = x * 4
    return v.sum()


def unpacked_head(body):
    return body[4 : 4 + int.from_bytes(body[:4], "little")]
