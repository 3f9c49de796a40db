"""Record what real programs print when they fail.

Run it as `python -m tests.unit.tools.code.recordings.record`.

Each case in `cases/<family>.yaml` has files, a shell command and optionally a `prepare` command
whose output is not kept. The result is `<family>/<case>.txt`; paths of this machine are replaced.
The expected object next to it, `<case>.json`, is written by hand.

Arguments name the families or the cases (`python/chained`) to record; without any, all of them.
Programs that are missing leave their recordings as they are.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

HERE: Final = Path(__file__).parent
SECONDS: Final = 300
REGISTRIES: Final = {
    "PIP_INDEX_URL": "https://pypi.org/simple",
    "NPM_CONFIG_REGISTRY": "https://registry.npmjs.org",
}
HOME: Final = "/home/user"


def replacements(folder: Path) -> list[tuple[re.Pattern[str], str]]:
    """Return what is replaced in each output: paths and times of the recording machine."""
    base = Path(os.__file__).parent
    plain = {
        str(folder.resolve()): "/project",
        str(Path(sys.prefix).parent): "/opt",
        str(base): f"/usr/lib/{base.name}",
        str(base.parent.parent): "/usr",
        str(Path.home()): HOME,
    }
    patterns = [(re.compile(re.escape(old)), new) for old, new in plain.items()]
    return [
        *patterns,
        (re.compile(r"\d{4}-\d\d-\d\dT\d\d_\d\d_\d\d_\d{3}Z"), "2026-01-01T00_00_00_000Z"),
    ]


def record(family: str, name: str, case: Mapping[str, Any]) -> None:
    """Run one case and write its recording."""
    with tempfile.TemporaryDirectory(prefix="recording") as place:
        folder = Path(place)
        for path, text in (case.get("files") or {}).items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", **case.get("env", {})}
        if "prepare" in case:
            shell(case["prepare"], folder, environment)
        ended = shell(case["run"], folder, environment)
        if ended.returncode == 127 and not case.get("missing"):
            sys.stdout.write(f"{family}/{name}: {ended.stderr}")
            return
        text = (
            f"$ {case['run'].strip()}\n=== exit code ===\n{ended.returncode}\n"
            f"=== stdout ===\n{ended.stdout}\n=== stderr ===\n{ended.stderr}"
        )
        for pattern, new in replacements(folder):
            text = pattern.sub(new, text)
    for variable, public in REGISTRIES.items():
        if private := os.environ.get(variable, "").rstrip("/"):
            text = text.replace(private, public)
    target = HERE / family / f"{name}.txt"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")


def shell(
    command: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command line in the folder of a case."""
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
        errors="replace", timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def main(wanted: list[str]) -> None:
    """Record the named cases."""
    for file in sorted((HERE / "cases").glob("*.yaml")):
        for name, case in YAML(typ="safe").load(file).items():
            if not wanted or file.stem in wanted or f"{file.stem}/{name}" in wanted:
                record(file.stem, name, case)


if __name__ == "__main__":
    main(sys.argv[1:])
