"""Fails when a dependency has a licence nobody agreed to, comes from elsewhere than the registry, or is banned."""

import json
import subprocess
import sys

PLATFORMS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "wasm32-unknown-unknown"]
LICENCES = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT",
    "MIT-0", "MPL-2.0", "Unicode-3.0", "Unlicense", "Zlib", "Apache-2.0 WITH LLVM-exception", "LLVM-exception",
}
BANNED = {
    "openssl-sys": "TLS is rustls: nothing of the machine is linked but libc",
}


def agreed(expression: str) -> bool:
    """Whether an SPDX expression can be met: every part of an AND, any part of an OR."""
    expression = expression.replace("/", " OR ").replace("(", "").replace(")", "")
    return all(
        any(one.strip() in LICENCES for one in part.split(" OR ")) for part in expression.split(" AND ")
    )


def faults(packages: list) -> list:
    """One line for each dependency that may not be there."""
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] is None:
            continue
        if not package["source"].startswith("registry+"):
            found.append(f"{name}: does not come from the registry")
        if not agreed(package["license"] or ""):
            found.append(f"{name}: licence {package['license']!r} is not in the list of tests/setup/dependencies.py")
        if package["name"] in BANNED:
            found.append(f"{name}: banned: {BANNED[package['name']]}")
    return found


def main() -> int:
    """Reads what Cargo.lock says, and fails if it is out of date."""
    command = ["cargo", "metadata", "--locked", "--quiet", "--format-version", "1"]
    for platform in PLATFORMS:
        command += ["--filter-platform", platform]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = faults(metadata["packages"])
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
