"""The probe's tests against several versions of torch, each in an interpreter of its own.

    python tests/probe/matrix.py PYTHON [PYTHON ...]            run them against these interpreters
    python tests/probe/matrix.py --make DIR [--torch 1.13.1 2.1.2 2.6.0 2.13.0] [--base python3.9]
                                                                 make virtual environments below DIR first

Gradline itself stays in the interpreter that runs this file; only the program and the agent move. An environment takes
one to six GB on disk. pytest is installed beside torch, because a test runs a pytest test there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = tuple(f"test_probe_{name}.py" for name in ("agent", "findings", "safety", "targets", "ranks", "trainers"))
VERSIONS = ("1.13.1", "2.1.2", "2.6.0", "2.13.0")


def make(folder: Path, version: str, base: str) -> str:
    """A virtual environment with that torch; made once."""
    home = folder / f"torch-{version}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([base, "-m", "venv", str(home)], check=True)
    numpy = "numpy<2" if tuple(map(int, version.split(".")[:2])) < (2, 3) else "numpy"
    subprocess.run([str(python), "-m", "pip", "install", "-q", f"torch=={version}", numpy, "pytest"], check=True)
    return str(python)


def main(argv: list[str]) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python", nargs="*")
    p.add_argument("--make", type=Path, metavar="DIR")
    p.add_argument("--torch", nargs="+", default=list(VERSIONS))
    p.add_argument("--base", default=sys.executable, help="the Python that environments are made with")
    p.add_argument("-k", default="", help="only these tests, as pytest's -k")
    given = p.parse_args(argv)
    interpreters = list(given.python)
    if given.make:
        interpreters += [make(given.make, version, given.base) for version in given.torch]
    if not interpreters:
        p.error("name interpreters, or a folder with --make")
    failed = []
    for python in interpreters:
        asked = "import sys, torch; print('Python', sys.version.split()[0], 'torch', torch.__version__)"
        said = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
        print(f"== {python}: {said.stdout.strip() or said.stderr.strip()[-200:]}", flush=True)
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *(str(HERE / test) for test in TESTS),
            *(["-k", given.k] if given.k else []),
        ]
        done = subprocess.run(words, env={**os.environ, "GRADLINE_PROBE_PYTHON": python}, check=False)
        if done.returncode:
            failed.append(python)
    print(
        f"{len(interpreters) - len(failed)} of {len(interpreters)} interpreters pass"
        + (f"; not {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
