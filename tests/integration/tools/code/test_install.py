"""The tool `code.install` with the real pip, from a folder of wheels made here: no network."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.sandbox.tree import remove
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context, ToolFailed

EXTENDED_INPUTS = ["pipecatapp/tools/code/install.py", "pipecatapp/tools/code/packages.py"]

INSTALL, RUN = TOOLS["code.install"], TOOLS["code.run"]


def wheel(folder: Path, name: str, version: str, code: str, needs: str = "") -> None:
    """A package with one module and a program, as PEP 427 wants it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-run = {name}:main\n",
    }
    record = "".join(
        f"{path},sha256={_sum(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


def _sum(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    code = "import lamp\ndef main(): print('run', lamp.LIGHT)"
    wheel(folder, "torch_lit", "1.0", code, needs="lamp>=2")
    wheel(folder, "lamp", "2.1", "LIGHT = 'on'")
    return folder


@pytest.fixture
def ctx(tmp_path: Path, wheels: Path) -> Context:
    sandbox = Sandbox()
    packages = Packages(tmp_path / "packages", sandbox, wheels=wheels)
    return Context(services={Sandbox: sandbox, Packages: packages})


async def test_packages_are_there_for_programs_and_cannot_be_changed(ctx: Context) -> None:
    """Runs share them: what one program changed would be run by the next person's."""
    told = await INSTALL.check(ctx, {"packages": ["torch-lit==1.0"]})
    code = """
import lamp, pathlib, subprocess, sys
print(lamp.LIGHT, flush=True)
subprocess.run(["torch_lit-run"])
try: pathlib.Path(lamp.__file__).write_text("evil")
except OSError as error: print(error.strerror)
"""
    ran = await RUN.check(ctx, {"code": code, "packages": told["id"]})
    without = await RUN.check(ctx, {"code": "import lamp"})

    assert told["packages"] == ["lamp==2.1", "torch_lit==1.0"]
    assert ran["stdout"] == "on\nrun on\nRead-only file system\n", ran["stderr"]
    assert "No module named 'lamp'" in without["stderr"]


async def test_same_packages_are_made_once_and_need_nobody_later(
    ctx: Context, wheels: Path, tmp_path: Path
) -> None:
    """A home without internet goes on to work with what it has; what a killed one began goes."""
    begun = tmp_path / "packages" / ".begun"
    begun.mkdir(parents=True)
    first = await INSTALL.check(ctx, {"packages": ["lamp==2.1"]})
    remove(wheels)

    assert not begun.exists()
    assert await INSTALL.check(ctx, {"packages": ["lamp==2.1"]}) == first


@pytest.mark.extended
@pytest.mark.proves("000-09")
async def test_versions_that_were_chosen_are_recorded_as_a_lock(
    ctx: Context, wheels: Path, tmp_path: Path
) -> None:
    """A request without versions gets other packages next month; its lock gets the same ones."""
    made = await INSTALL.check(ctx, {"packages": ["torch-lit"]})
    hashes = [
        hashlib.sha256((wheels / f"{name}-py3-none-any.whl").read_bytes()).hexdigest()
        for name in ("lamp-2.1", "torch_lit-1.0")
    ]

    again = download(made["lock"], wheels, tmp_path / "again")

    assert made["lock"].splitlines() == [
        f"lamp==2.1 --hash=sha256:{hashes[0]}",
        f"torch_lit==1.0 --hash=sha256:{hashes[1]}",
    ]
    assert again == ["lamp-2.1-py3-none-any.whl", "torch_lit-1.0-py3-none-any.whl"]


def download(lock: str, wheels: Path, folder: Path) -> list[str]:
    """Let pip download what a lock names, and return the names of the files."""
    folder.mkdir()
    (folder / "lock.txt").write_text(lock, encoding="utf-8")
    words = ["-m", "pip", "download", "--no-index", f"--find-links={wheels}", "--require-hashes"]
    words += ["--quiet", "--dest", str(folder), "-r", str(folder / "lock.txt")]
    subprocess.run([sys.executable, *words], check=True)
    return sorted(file.name for file in folder.glob("*.whl"))


@pytest.mark.extended
async def test_environment_of_an_older_version_has_a_lock_without_hashes(
    ctx: Context, tmp_path: Path
) -> None:
    """A home without internet keeps the environments that it has."""
    made = await INSTALL.check(ctx, {"packages": ["lamp==2.1"]})
    (tmp_path / "packages" / made["id"] / "requirements.lock").unlink()

    again = await INSTALL.check(ctx, {"packages": ["lamp==2.1"]})

    assert again == made | {"lock": "lamp==2.1\n"}


@pytest.mark.parametrize(
    ("packages", "type", "message"),
    [
        (["lamp==3"], "DistributionNotFound", "(from versions: 2.1)"),
        (["torch-lit", "lamp<2"], "ResolutionImpossible", "torch-lit 1.0 depends on lamp>=2"),
    ],
)
async def test_failure_has_an_error_that_a_repair_can_read(
    ctx: Context, wheels: Path, packages: list[str], type: str, message: str
) -> None:
    """The versions that there are, and who needs what, are what a correction needs."""
    wheel(wheels, "lamp", "1.0", "") if len(packages) > 1 else None

    made = await INSTALL.check(ctx, {"packages": packages, "must_succeed": False})

    assert (made["ok"], made["id"], made["packages"], made["lock"]) == (False, None, [], "")
    assert made["error"]["type"] == type
    assert message in made["error"]["message"]
    assert made["error"]["signature"].startswith(f"{type}: ")
    with pytest.raises(ToolFailed, match=f"(?s)pip cannot fetch .*{re.escape(message)}"):
        await INSTALL.check(ctx, {"packages": packages})


async def test_index_that_does_not_answer_fails_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other versions would not help, so a repair must not try any."""
    sandbox = Sandbox()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    ctx = Context(services={Sandbox: sandbox, Packages: Packages(tmp_path / "packages", sandbox)})

    with pytest.raises(ToolFailed, match="pip cannot fetch lamp"):
        await INSTALL.check(ctx, {"packages": ["lamp"], "must_succeed": False})


@pytest.mark.parametrize(
    "line", ["npm install express", "npm:express", "sudo apt-get install jq", "apt:jq"]
)
async def test_packages_of_npm_and_of_the_system_are_refused(ctx: Context, line: str) -> None:
    """One sentence says why, so that a model plans without them."""
    with pytest.raises(ToolFailed, match=r"is refused, because code.install gets Python packages"):
        await INSTALL.check(ctx, {"packages": ["lamp", line], "must_succeed": False})


def test_packages_that_nobody_uses_any_more_are_swept(tmp_path: Path) -> None:
    """A machine that tries out libraries must not fill up; a run that waits keeps what it has."""
    root, long_ago = tmp_path / "packages", time.time() - 91 * 86400
    waited_for, used, unused = (root / (letter * 24) for letter in "abc")
    for folder in (waited_for, used, unused, root / ".begun"):
        (folder / "bin").mkdir(parents=True)
        os.utime(folder, (long_ago, long_ago))
    (root / "asked").mkdir()
    for place in (used, unused):
        told = json.dumps({"id": place.name, "packages": []})
        (root / "asked" / f"{place.name}.json").write_text(told, encoding="ascii")
    packages = Packages(root, Sandbox(), needed=lambda: [waited_for.name])
    packages.place(used.name)

    packages.sweep()

    left = {place.name for place in root.iterdir()}
    assert left == {waited_for.name, used.name, "asked"}
    assert [file.stem for file in root.glob("asked/*")] == [used.name]


async def test_package_that_has_to_be_built_is_refused(ctx: Context, wheels: Path) -> None:
    """Building runs its author's program, and that would be on the host."""
    (wheels / "builder-1.0.tar.gz").write_bytes(b"")

    with pytest.raises(ToolFailed, match="pip cannot fetch builder"):
        await INSTALL.check(ctx, {"packages": ["builder"]})


@pytest.mark.parametrize(
    "line",
    ["-r /etc/passwd", "--index-url=http://x", "x @ http://evil", "git+https://x/y", "./local",
     "/etc", "x; python_version>'3'", "x\n--pre", ""],
)  # fmt: skip
async def test_only_names_and_versions_are_taken(ctx: Context, line: str) -> None:
    """A requirement can be an option, a path or an address, and each would reach the host."""
    with pytest.raises(ToolFailed, match=r"is not a valid package"):
        await INSTALL.check(ctx, {"packages": [line]})
