"""Beside `make run`: makes the sample upstream half as fast and offers twice what it can then do. `make load` calls it.

What to look at in the table it ends with: sheddable (/beacon) is refused with 503 first, critical (/checkout) is not.
"""

import os
import pathlib
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONCURRENCY = 16
SERVICE_MS = 40
SECONDS = 20
# Twice the capacity of 400 a second, from so many clients that none of them meets a quota.
RATE = 2 * CONCURRENCY * 1000 // SERVICE_MS
CLIENTS = 400
# What each kind of request is, its share in percent; and how long its caller waits: many times the service, whose times
# scatter, so that whoever comes too late has waited in a queue.
KINDS = {
    "critical": ("/checkout", 10),
    "high": ("/cart", 20),
    "normal": ("/", 40),
    "low": ("/sync", 20),
    "sheddable": ("/beacon", 10),
}
DEADLINE_MS = 500


def control(port: str, service_ms: int) -> None:
    """Sets the service time of the sample upstream."""
    url = f"http://127.0.0.1:{port}/_control?concurrency={CONCURRENCY}&service_ms={service_ms}"
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=5).close()


def main() -> int:
    """Slows it down, drives the load, and gives it its speed back."""
    gateway = os.environ.get("ENVOY_PORT") or "10000"
    upstream = os.environ.get("UPSTREAM_PORT") or "8080"
    try:
        control(upstream, SERVICE_MS)
    except OSError as error:
        print(f"load: the sample upstream does not answer on port {upstream} ({error}); start it: make run", file=sys.stderr)
        return 1
    command = [str(ROOT / "target/native/sluicegate-load"), "generate", "--url", f"http://127.0.0.1:{gateway}"]
    command += ["--rate", str(RATE), "--seconds", str(SECONDS), "--tenants", str(CLIENTS)]
    command += ["--mix", ",".join(f"{name}={path}:{share}:{DEADLINE_MS}" for name, (path, share) in KINDS.items())]
    print(f"{RATE} requests a second for {SECONDS} s, of which the service can do {RATE // 2}", flush=True)
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        control(upstream, 20)


if __name__ == "__main__":
    sys.exit(main())
