"""A forked child recreates what it inherits or knows it as inherited; a guarded call is never forked."""

import subprocess
import sys

from tests.support.waiting import GENEROUS

BEGINNING = """
import os, signal, threading, time, asyncio
from recollect.concurrency.fork import OwnerProcess, PerProcess
from recollect.concurrency.threads import ThreadPool

def in_child(action):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # one that hangs is ended
        print(action(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_lock_that_a_thread_holds_is_free_in_the_child() -> None:
    """In the parent it stays held, and a fork within the block releases the lock that was taken."""
    assert _run("""
lock, let_go = PerProcess(threading.Lock), threading.Event()
def hold():
    with lock.value:
        let_go.wait()
holder = threading.Thread(target=hold)
holder.start()
while not lock.value.locked():
    time.sleep(0.001)
in_child(lambda: lock.value.acquire(timeout=30))
print(lock.value.locked(), flush=True)
let_go.set()
holder.join()
with lock.value:
    in_child(lambda: lock.value.acquire(timeout=30))
print(lock.value.locked())
""") == ["True", "True", "True", "False"]


def test_object_knows_that_it_was_made_before_the_fork() -> None:
    """`is_current` is True in the process that created the object, and False in its forks."""
    assert _run("""
owner = OwnerProcess()
in_child(lambda: (owner.is_current, OwnerProcess().is_current))
print(owner.is_current)
""") == ["(False,", "True)", "True"]


def test_pool_of_the_parent_works_in_the_child() -> None:
    """The child starts its own threads and runs none of the parent's tasks."""
    assert _run("""
pool, let_go, done = ThreadPool(1, "pool"), threading.Event(), []
pool.post(let_go.wait)
pool.post(lambda: done.append("parent's"))
in_child(lambda: (asyncio.run(pool.run(lambda: "child's")), done))
let_go.set()
asyncio.run(pool.close())
print(done)
""") == ['("child\'s",', "[])", '["parent\'s"]']


def test_process_forks_only_between_the_calls_of_a_pool_that_blocks_forks() -> None:
    """No child sees a call half done, however often the parent forks."""
    assert (
        _run("""
pool, halves, over = ThreadPool(1, "pool", blocks_fork=True), [0, 0], False
def work():
    halves[0] += 1
    time.sleep(0.002)
    halves[1] += 1
    if not over:
        pool.post(work)
pool.post(work)
for _ in range(20):
    time.sleep(0.003)
    in_child(lambda: halves[0] == halves[1])
over = True
print(halves[1] > 0)
""")
        == ["True"] * 21
    )


def _run(program: str) -> list[str]:
    # Newer Pythons warn of every fork in a process with threads, which is what is tested here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGINNING + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GENEROUS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()
