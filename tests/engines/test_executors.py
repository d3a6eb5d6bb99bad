"""Runs in other processes: the numbers of one process, whoever is killed, on pools, Dask, Ray and submitit."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import torch

import backprobe as bp
from programs import Killing, Locked, Model, Slowly, f, failing, loss

X = torch.tensor([0.5, 1.5, -2.0, 3.0])
W = torch.tensor([1.0, 0.25, 2.0, -1.0])


def pool(workers=2):
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def processes():
    with pool() as executor:
        yield executor


def sweep(executor=None, replace=torch.zeros_like, **options):
    torch.manual_seed(0)
    return bp.sweep(f, ["u", "v", "h", "w"], replace=replace, axis=0, executor=executor, **options)(X, W)


def same(found, executor=None):
    one = sweep(approximate=True)
    assert found.to_dict() == one.to_dict() if hasattr(found, "to_dict") else str(found) == str(one)
    assert found.effects == one.effects and found.output == one.output and found.notes == one.notes
    assert list(found.effects) == list(one.effects) and len(found.effects) == 16


def test_a_sweep_is_that_of_one_process(processes):
    same(sweep(processes, approximate=True))
    torch.manual_seed(7)
    after = torch.rand(1)
    torch.manual_seed(7)
    bp.sweep(f, "u", replace=torch.zeros_like, executor=processes)(X, W)
    assert torch.equal(torch.rand(1), after)


def test_a_sweep_of_a_model_and_a_recording(processes):
    torch.manual_seed(1)
    model, x, y = Model(), torch.randn(4, 16), torch.randn(4, 16)
    clean = bp.probe(model, "blocks.*")(y)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    for replace in (clean, torch.zeros_like):
        one = bp.sweep(model, "blocks.*", replace=replace, axis=0)(x)
        two = bp.sweep(model, "blocks.*", replace=replace, axis=0, executor=processes)(x)
        assert one.effects == two.effects and len(one.effects) == 24
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def test_a_noise_floor_is_that_of_one_process(processes):
    torch.manual_seed(1)
    model, x = Model(2), torch.randn(4, 16)
    torch.manual_seed(2)
    one = bp.noise_floor(model, runs=5, precision="bfloat16")(x)
    torch.manual_seed(2)
    two = bp.noise_floor(model, runs=5, precision="bfloat16", executor=processes)(x)
    assert vars(one) == vars(two) and repr(one) == repr(two)


def test_provocations_are_those_of_one_process(processes):
    x, w = torch.tensor([[0.5, 1.0], [2.0, -1.0]]), torch.tensor([1.0, 0.5])
    bounds = {"x": (-30.0, 30.0), "w": None}
    one = bp.provoke(loss, bounds=bounds, tries=20)(x, w)
    two = bp.provoke(loss, bounds=bounds, tries=20, executor=processes)(x, w)
    assert str(one) == str(two) and one.to_dict() == two.to_dict() and one.findings
    for a, b in zip(one.findings, two.findings, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a.args, b.args, strict=True))


def test_an_attribution_is_that_of_one_process(processes):
    torch.manual_seed(1)
    model, x, y = Model(), torch.randn(4, 16), torch.randn(4, 16)
    for options in ({"steps": 4}, {"chunk": 2}, {"steps": 3, "chunk": 4, "axis": 0}):
        torch.manual_seed(2)
        one = bp.attribute(model, y, x, "blocks.*", **options)
        torch.manual_seed(2)
        two = bp.attribute(model, y, x, "blocks.*", executor=processes, **options)
        assert one.to_dict() == two.to_dict() and str(one) == str(two) and two.edges
        assert all((one.parts[name] == two.parts[name]).all() for name in one.parts)
        assert two.exact_edges(2).effects == one.exact_edges(2).effects


def test_a_killed_worker_s_tasks_are_done_again(tmp_path):
    torch.manual_seed(0)
    with pool() as executor:
        found = bp.sweep(f, "x", replace=Killing(tmp_path, 1), axis=0, executor=executor)(X, W)
    assert len(list(tmp_path.iterdir())) == 1  # one was killed
    torch.manual_seed(0)
    assert found.effects == bp.sweep(f, "x", replace=torch.zeros_like, axis=0)(X, W).effects


def test_a_task_that_kills_each_worker_is_named(tmp_path):
    killing = Killing(tmp_path, 9, at=0.375)  # which is in u alone
    with pool() as executor, pytest.raises(bp.WorkerLost, match="in the run of 'u'\n"):
        bp.sweep(f, ["x", "w", "u", "v", "h"], replace=killing, executor=executor)(X, W)
    assert len(list(tmp_path.iterdir())) == 2


def test_ctrl_c_keeps_what_came(tmp_path):
    def interrupt():
        while len(list(tmp_path.iterdir())) < 8:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with pool() as executor:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt) as stop:
            bp.sweep(Model(15, 4), "blocks.*", replace=Slowly(tmp_path), axis=0, executor=executor)(torch.ones(4, 4))
    found = stop.value.so_far
    assert 0 < len(found.effects) < 60


def test_an_error_of_the_program_comes_out(processes):
    for executor in (None, processes):
        with pytest.raises(LookupError, match="mine"):
            bp.sweep(f, "x", replace=failing, axis=0, executor=executor)(torch.tensor([1.5, 1.0]), torch.ones(2))


# what cannot be


def test_what_cannot_be_sent_is_named_with_its_line(processes):
    with pytest.raises(bp.BadOption, match="cannot be sent to another process") as error:
        bp.sweep(Locked(), "blocks.*", replace=torch.zeros_like, executor=processes)(torch.ones(4, 16))
    assert "Locked.lock" in str(error.value) and "programs.py:43: self.lock = threading.Lock()" in str(error.value)

    held = threading.Lock()

    def with_lock(x):
        with held:
            return (x * 2).sum()

    with pytest.raises(bp.BadOption, match="with_lock.held") as error:
        bp.sweep(with_lock, "x", replace=torch.zeros_like, executor=processes)(X)
    assert "held = threading.Lock()" in str(error.value)


def test_executors_that_cannot_be_used():
    closed = pool()
    closed.shutdown()
    with pytest.raises(bp.BadOption, match="takes no tasks"):
        sweep(closed)
    with ThreadPoolExecutor(1) as threads, pytest.raises(bp.BadOption, match="runs its tasks in this process"):
        sweep(threads)
    for other in (3, ProcessPoolExecutor, "dask"):
        with pytest.raises(bp.BadOption, match=r"executor is a concurrent.futures.Executor"):
            sweep(other)
        with pytest.raises(bp.BadOption, match=r"executor is a concurrent.futures.Executor"):
            bp.noise_floor(f, executor=other)
        with pytest.raises(bp.BadOption, match=r"executor is a concurrent.futures.Executor"):
            bp.attribute(f, (X, W), (W, X), "u", executor=other)
        with pytest.raises(bp.BadOption, match=r"executor is a concurrent.futures.Executor"):
            bp.provoke(f, executor=other)
    with pytest.raises(bp.BadOption, match="num_workers is a whole number"):
        bp.executors.ray(0)
    with pytest.raises(bp.BadOption, match="an executor of submitit"):
        bp.executors.submitit(3)


def test_a_broken_pool_is_rebuilt(tmp_path):
    with pool(1) as executor:
        with pytest.raises(bp.WorkerLost):
            bp.sweep(f, "x", replace=Killing(tmp_path, 9), axis=0, executor=executor)(X, W)
        same(sweep(executor, approximate=True))  # it is broken for good, and another is made


def test_other_settings_in_workers_are_noted(processes, monkeypatch):
    sweep(processes)  # the workers are there, and have the environment as it was
    monkeypatch.setenv("FACTOR", "2")
    found = bp.sweep(
        lambda x: x.sum() * float(os.environ.get("FACTOR", "1")), "x", replace=torch.zeros_like, executor=processes
    )(torch.ones(2))
    assert any("they compute with other settings" in note for note in found.notes)


def test_default_dtype_goes_along(processes):
    torch.set_default_dtype(torch.float64)
    try:
        found = bp.sweep(lambda x: torch.rand(3).sum() * x.sum(), "x", replace=torch.zeros_like, executor=processes)(
            torch.ones(2, dtype=torch.float64)
        )
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.notes == ()


# engines of others


def test_dask_and_a_worker_that_is_killed(tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        client.run(torch.set_num_threads, 1)
        same(sweep(client.get_executor(), approximate=True))
        torch.manual_seed(0)
        killing = bp.sweep(f, "x", replace=Killing(tmp_path, 1), axis=0, executor=client.get_executor())
        found = killing(X, W)
        assert len(list(tmp_path.iterdir())) == 1
        torch.manual_seed(0)
        assert found.effects == bp.sweep(f, "x", replace=torch.zeros_like, axis=0)(X, W).effects


def test_ray_and_a_worker_that_is_killed(tmp_path):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    try:
        with bp.executors.ray(2) as executor:
            same(sweep(executor, approximate=True))
            torch.manual_seed(0)
            found = bp.sweep(f, "x", replace=Killing(tmp_path, 1), axis=0, executor=executor)(X, W)
            assert len(list(tmp_path.iterdir())) == 1
            torch.manual_seed(0)
            assert found.effects == bp.sweep(f, "x", replace=torch.zeros_like, axis=0)(X, W).effects
    finally:
        ray.shutdown()


def test_submitit_on_this_machine(tmp_path):
    import submitit

    theirs = submitit.LocalExecutor(folder=tmp_path / "jobs")
    theirs.update_parameters(timeout_min=5)
    started = time.monotonic()
    with bp.executors.submitit(theirs, jobs=2) as executor:
        same(sweep(executor, approximate=True))
    assert time.monotonic() - started < 300
    assert len(list((tmp_path / "jobs").glob("*_submission.sh"))) <= 2
