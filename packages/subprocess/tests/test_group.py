"""Whether a group lives (BEHAVIOUR 2.23, 2.24)."""

import os
import subprocess
import sys

PREPARE = """
import os, signal, subprocess, sys, time
from dsh_subprocess._group import ProcessGroup

os.setsid()
leader = os.fork()
if leader == 0:
    os.setpgid(0, 0)
    time.sleep(60)
    os._exit(0)
os.setpgid(leader, leader)
group = ProcessGroup(leader)
assert group.alive()
member = subprocess.Popen(["sleep", "60"], process_group=leader)
os.kill(leader, signal.SIGKILL)
os.waitpid(leader, 0)
group.leader_ended()
assert group.alive(), "a member lives"
assert group.alive(), "the member found before lives"
"""


def run(case: str) -> None:
    """Run a case in an interpreter with a session of its own: there a test may put processes of its own into a group.

    They are the interpreter's children, so the case decides when they are reaped.
    """
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + case],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
    )
    assert (0, "") == (done.returncode, done.stderr)


def test_a_group_of_zombies_is_gone() -> None:
    """A killed member that nobody has reaped counts as gone although the group can be signalled (BEHAVIOUR 2.24)."""
    run("""
group.send(signal.SIGKILL)
os.waitid(os.P_PID, member.pid, os.WEXITED | os.WNOWAIT)
os.killpg(leader, 0)
assert not group.alive()
member.wait()
""")


def test_a_group_that_is_gone_is_never_signalled_again() -> None:
    """Once gone, its number may belong to others: nothing is sent (BEHAVIOUR 2.23)."""
    run("""
member.kill()
member.wait()
assert not group.alive()
other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
group.pgid = other.pid
group.send(signal.SIGKILL)
other.communicate(timeout=10)
assert other.returncode == 0
assert not group.alive()
""")


def test_a_zombie_first_thread_does_not_hide_a_running_process() -> None:
    """A process whose first thread has ended still lives (BEHAVIOUR 2.24)."""
    run("""
code = '''
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
'''
odd = subprocess.Popen([sys.executable, "-c", code], process_group=leader)
member.kill()
member.wait()
while open(f"/proc/{odd.pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.01)
assert group.alive()
odd.kill()
odd.wait()
assert not group.alive()
""")
