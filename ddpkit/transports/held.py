"""The way into a hold: on each node a fork of its warm Python becomes the supervisor of a launch.

A connection begins as every other one, with a Python that reads its program. Here that program hands the stream on to
the hold on its machine (`node/rank/holder.py`). Where none answers, it reads on, and becomes an ordinary
supervisor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from ddpkit.launchers.events import Event
from ddpkit.node.child import HELD_FORMAT
from ddpkit.transports.protocol import BOOT, LocalLink, new_key, program

ANSWER_LIMIT = 2.0  # seconds for a hold to take a connection: it may be stopped
# The stream stays the lifeline: at its end this program ends, and with its socket the supervisor behind it. That one's
# parent is the hold, which lives on. So this program continues its processes where somebody has stopped them: at the
# end, and when it is continued itself. The kernel tells which process sent the first byte (SO_PASSCRED). The modules of
# C are imported, and not those of Python around them, which would be 25 ms of every launch.
# With the environment goes what else a process has of the one that started it. This program has what an ordinary
# supervisor would have, whatever leads here: a shell, sshd or srun.
_RELAY = """
import os,sys,_signal,_socket,_thread,resource
from _struct import unpack
from _json import encode_basestring_ascii as q
s=_socket.socket(1,1)
s.settimeout({limit})
try:
 s.setsockopt(1,16,1)
 s.connect("\\0"+{name!r})
 if unpack("3i",s.getsockopt(1,17,12))[1]!=os.geteuid():
  raise OSError(0,"it is another user's")
 d,a=s.recvmsg(16,64)[:2]
 if d!=b"{format}\\n": raise OSError(0,"it is of another version of ddpkit" if d else "it has just ended")
 m=os.umask(63)
 os.umask(m)
 l=sorted({{getattr(resource,n) for n in dir(resource) if n[:7]=="RLIMIT_"}})
 p=[m,os.getpriority(0,0),sorted(os.sched_getaffinity(0)),[os.getegid(),*sorted(os.getgroups())],
  [[n,*resource.getrlimit(n)] for n in l]]
 d=("[{{"+",".join(q(k)+":"+q(v) for k,v in os.environ.items())+"}},"+str(p)+"]").encode()
 s.sendall(b"%8d"%len(d)+d)
 d=b""
 while d[-1:]!=b"\\n":
  x=s.recv(4096)
  if not x: raise OSError(0,"it has just ended")
  d+=x
 why=d[:-1].decode()
except OSError as e:
 why="the hold does not answer: "+str(e.strerror or e)
if why:
 s.close()
 os.environ["DDPKIT_COLD"]=why
 exec(open(0,"rb",0,closefd=False).readline())
 os._exit(0)
s.setsockopt(1,16,0)
s.settimeout(None)
g=unpack("3i",a[0][2])[0] if a else 0
def wake(*_):
 try:
  if g>0: os.killpg(g,18)
 except OSError: pass
def up():
 try:
  while True:
   d=os.read(0,65536)
   if not d: break
   s.sendall(d)
  s.shutdown(1)
 except OSError: pass
 wake()
_signal.alarm(0)
for n in 1,2,3: _signal.signal(n,_signal.SIG_IGN)
_signal.signal(18,wake)
import ctypes
ctypes.CDLL(None).prctl(4,0,0,0,0)
_thread.start_new_thread(up,())
try:
 while True:
  d=s.recv(65536)
  if not d: break
  while d: d=d[os.write(1,d):]
except OSError: pass
os._exit(0)
"""


def socket_name(run_id: str) -> str:
    """Return the name of a hold's socket, in the kernel's own name space. Never read from a record."""
    return f"ddpkit-hold-{os.geteuid()}-{run_id}"


def relay(run_id: str) -> bytes:
    """Return what stands before the first bytes of a connection into a hold; nothing for no run."""
    if not run_id:
        return b""
    text = _RELAY.format(limit=ANSWER_LIMIT, name=socket_name(run_id), format=HELD_FORMAT)
    return f"exec({text!r})\n".encode()


class HeldLink(LocalLink):
    """A supervisor in a hold on this machine."""

    argv: Sequence[str] = (sys.executable, "-S", "-I", "-c", BOOT)

    def __init__(self, run_id: str) -> None:
        self._key = new_key()
        self._run_id = run_id
        super().__init__(key=self._key)

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        self.open(post)
        self._write(relay(self._run_id) + program(key=self._key))
        self.request(request)
