"""Runs the whole chain on this machine: sample upstream, shim, Envoy, and Redis if there is one. `make run` calls it.

It owns what it starts by process handles: Ctrl-C, an end of one of them, or its own death ends exactly those.
Everything it writes is under target/run/<port of the gateway>/.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name in the environment: (default, what listens there)
PORTS = {
    "ENVOY_PORT": (10000, "the gateway"),
    "ADMIN_PORT": (9901, "Envoy's admin"),
    "SHIM_ADMIN_PORT": (8091, "the shim's admin"),
    "UPSTREAM_PORT": (8080, "the sample upstream"),
}
# Loaded here, since a child between fork and exec must not load anything.
LIBC = ctypes.CDLL(None)
START_SECONDS = 30
# A Redis that is not ours may be away; the demo then shows what happens without it.
STORE_SECONDS = 2
STOP_SECONDS = 12
# Where envoy.yaml expects the shim.
SHIM_SOCKET = "/run/sluicegate/shim.sock"
LINES_A_SECOND = 8


class Failure(Exception):
    """Something a person has to put right; the text says what."""


class Stopped(Exception):
    """Somebody told us to stop."""


class Child:
    """A process of ours: its output goes to a file in full and to the terminal in short."""

    def __init__(self, name: str, command: list, folder: pathlib.Path, env: dict | None = None):
        self.name = name
        self.log = folder / f"{name}.log"
        self.quiet = False
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C in the terminal reaches us alone; we end the others in order.
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        second, shown, held = 0, 0, 0
        with self.log.open("wb") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                if int(time.monotonic()) != second:
                    if held:
                        self._show(f"... and {held} more lines ({self.log.relative_to(ROOT)})")
                    second, shown, held = int(time.monotonic()), 0, 0
                if shown < LINES_A_SECOND:
                    self._show(line.decode("utf-8", "replace").rstrip())
                    shown += 1
                else:
                    held += 1

    def _show(self, text: str) -> None:
        if text and not self.quiet:
            print(f"{self.name:>8} | {text[:200]}", flush=True)

    def tail(self) -> str:
        """The last lines it wrote."""
        self.reader.join(timeout=1)
        return "".join(f"    {line}\n" for line in self.log.read_text(errors="replace").splitlines()[-8:])

    def stop(self) -> None:
        """Asks it to end, and ends it if it does not."""
        self.quiet = True
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Chain:
    """What runs, in the order it was started."""

    def __init__(self, stopped: threading.Event) -> None:
        self.stopped = stopped
        self.children: list[Child] = []
        self.ports = read_ports()
        self.folder = ROOT / "target" / "run" / str(self.ports["ENVOY_PORT"])
        self.folder.mkdir(parents=True, exist_ok=True)
        # Not in that folder: the path of a socket has room for about a hundred characters.
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="sluicegate-"))

    def start(self, name: str, command: list, env: dict | None = None) -> Child:
        """Starts one process."""
        child = Child(name, command, self.folder, env)
        self.children.append(child)
        return child

    def wait(self, what: str, is_ready) -> None:
        """Waits until `is_ready()`, watching that nothing dies meanwhile."""
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise Failure(f"{what} did not answer within {START_SECONDS} s; see {self.folder.relative_to(ROOT)}/")
            time.sleep(0.05)

    def check(self) -> None:
        """Fails if one of them has ended by itself, or if we were told to stop."""
        if self.stopped.is_set():
            raise Stopped
        for child in self.children:
            if child.process.poll() is not None:
                child.quiet = True
                raise Failure(f"{child.name} ended by itself (status {child.process.returncode}):\n{child.tail()}")

    def stop(self) -> None:
        """Ends everything that was started, last first."""
        for child in reversed(self.children):
            child.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)


def die_with_parent() -> None:
    """In the child: ends it when we are gone, even if we were killed. Linux only; elsewhere it does nothing."""
    if sys.platform == "linux":
        LIBC.prctl(1, signal.SIGTERM)


def read_ports() -> dict:
    """The ports, checked to be free and different."""
    ports = {}
    for variable, (default, what) in PORTS.items():
        text = os.environ.get(variable) or str(default)
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise Failure(f"{variable} is '{text}', expected a port from 1 to 65535")
        port = int(text)
        for other, taken in ports.items():
            if taken == port:
                raise Failure(f"{variable} and {other} are both {port}; set one of them to another port")
        ports[variable] = port
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                probe.listen()
            except OSError as error:
                raise Failure(
                    f"port {port}, meant for {what}, is taken ({error.strerror}); set {variable} to another, "
                    f"for example: make run {variable}={port + 1000 if port < 64000 else port - 1000}"
                ) from None
    return ports


def answers(url: str):
    """A check that `url` answers 200."""

    def check() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as response:
                return response.status == 200
        except OSError:
            return False

    return check


def connects(port: int):
    """A check that something listens on `port`."""

    def check() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    return check


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_redis(chain: Chain) -> tuple[str, str]:
    """The shim's store, and what to tell about it."""
    url = os.environ.get("REDIS_URL")
    if url:
        return url, "the Redis at REDIS_URL"
    binary = shutil.which("redis-server")
    if not binary:
        return "memory", "the shim's own memory (no redis-server on this machine, and REDIS_URL is not set)"
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(chain.folder), "--loglevel", "warning"]
    child = chain.start("redis", [binary, *options, "--save", "", "--appendonly", "no"])
    child.quiet = True
    chain.wait("redis-server", connects(port))
    return f"redis://127.0.0.1:{port}", f"a redis-server of its own on port {port}"


def envoy_config(chain: Chain) -> pathlib.Path:
    """envoy/envoy.yaml, with our ports and our socket in the place of its own."""
    text = (ROOT / "envoy" / "envoy.yaml").read_text()
    defaults = {"ENVOY_PORT": "10000", "ADMIN_PORT": "9901", "UPSTREAM_PORT": "8080"}
    for variable, default in defaults.items():
        text = text.replace(f"port_value: {default}}}", f"port_value: <{variable}>}}")
    for variable in defaults:
        text = text.replace(f"<{variable}>", str(chain.ports[variable]))
    text = text.replace(SHIM_SOCKET, str(chain.sockets / "shim.sock"))
    path = chain.folder / "envoy.yaml"
    path.write_text(text)
    return path


def start(chain: Chain) -> str:
    """Starts everything and waits until a request goes all the way; tells which store is used."""
    local = {name: f"127.0.0.1:{port}" for name, port in chain.ports.items()}
    native = ROOT / "target" / "native"
    url, store = start_redis(chain)

    chain.start("upstream", [str(native / "sluicegate-load"), "upstream", "--listen", local["UPSTREAM_PORT"]])
    command = ["serve", "--listen", f"unix:{chain.sockets / 'shim.sock'}", "--admin-listen", local["SHIM_ADMIN_PORT"]]
    # The URL may hold a password, which does not belong on a command line.
    chain.start("shim", [str(native / "sluicegate"), *command], {"SLUICEGATE_STORE": url})
    chain.wait("the sample upstream", answers(f"http://{local['UPSTREAM_PORT']}/healthz"))
    chain.wait("the shim", answers(f"http://{local['SHIM_ADMIN_PORT']}/healthz"))

    is_ready = answers(f"http://{local['SHIM_ADMIN_PORT']}/readyz")
    deadline = time.monotonic() + STORE_SECONDS
    while not is_ready() and time.monotonic() < deadline:
        chain.check()
        time.sleep(0.05)
    if not is_ready():
        store += ",\nwhich does not answer: until it does, each limit's when_unavailable decides"

    envoy = ["-c", str(envoy_config(chain)), "--concurrency", "2", "--use-dynamic-base-id", "--drain-time-s", "1"]
    logs = ["--log-level", "warning", "--component-log-level", "wasm:info", "--log-format", "%l %v"]
    chain.start("envoy", [str(ROOT / "target" / "tools" / "envoy"), *envoy, *logs])
    chain.wait("Envoy", answers(f"http://{local['ADMIN_PORT']}/ready"))
    chain.wait("the gateway", answers(f"http://{local['ENVOY_PORT']}/healthz"))
    return store


def tell(chain: Chain, store: str) -> None:
    """What runs, and what to try."""
    gateway, admin = chain.ports["ENVOY_PORT"], chain.ports["ADMIN_PORT"]
    moved = "".join(
        f" {name}={chain.ports[name]}" for name, (default, _) in PORTS.items() if chain.ports[name] != default
    )
    print(f"""
Sluicegate is up on http://localhost:{gateway}. Tokens are counted in {store}.
Try, in another terminal:

  curl -i localhost:{gateway}/hello -H 'x-api-key: alice'
      200, and RateLimit fields that say what is left: 100 at once, one more each second
  curl -sZ --parallel-max 10 -o /dev/null -w '%{{http_code}}\\n' -H 'x-api-key: bob' 'localhost:{gateway}/hello?[1-150]' | sort | uniq -c
      about 100 times 200, the rest 429: bob has used up his own, alice has not
  curl -i localhost:{gateway}/login
      200 five times, then 429 with a Retry-After that works, whatever the key: it counts the address
  make load{moved}
      twice what the service can do: /beacon gets 503, /checkout does not, /healthz always answers
  curl -s localhost:{admin}/stats/prometheus | grep ^sluicegate_
      the accounts of all of it

Ctrl-C ends it. Logs, in full: {chain.folder.relative_to(ROOT)}/
""", flush=True)


def main() -> int:
    """Runs until told to stop, or until a part of it fails."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    chain = None
    try:
        chain = Chain(stopped)
        tell(chain, start(chain))
        while True:
            stopped.wait(0.2)
            chain.check()
    except Stopped:
        print("\nstopping", flush=True)
        return 0
    except Failure as failure:
        print(f"run: {failure}", file=sys.stderr)
        return 1
    finally:
        if chain:
            chain.stop()


if __name__ == "__main__":
    sys.exit(main())
