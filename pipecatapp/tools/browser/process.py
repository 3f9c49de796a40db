"""The browser's process, in a sandbox without a network.

Chromium's own sandbox stays on, also where the service runs as root: inside of bubblewrap it is an
ordinary user, which may create the namespaces that Chromium's sandbox needs.
"""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import structlog

from pipecatapp.sandbox import bubblewrap
from pipecatapp.sandbox.bubblewrap import SandboxUnusable
from pipecatapp.tools.browser import bridge
from pipecatapp.workflow import ToolFailed
from pipecatapp.workflow.needs import Package, Program

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

log = structlog.get_logger()

PID: Final = "pid"
"""The file with the number of the sandbox's process, in the folder of a browser."""
CHROMIUM: Final = Program("chromium", apt="chromium", others=("google-chrome", "chromium-browser"))
NEEDS: Final = (
    Package("playwright", extra="browser"),
    CHROMIUM,
    Program("bwrap", apt="bubblewrap"),
)

SLOTS: Final = 8
"""Runs that use the browser at the same time."""
FIRST_PORT: Final = 9001
"""The first port in the browser's own network, where nothing else listens."""
SOCKETS: Final = "/run/proxies"
SCRATCH: Final = 512 * 1024 * 1024
"""Bytes of each of the browser's temporary folders, which are in memory."""
MEMORY: Final = 2 * 1024**3
"""Bytes of data of each process of the browser."""
START_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0
"""Time that the browser has to close something by itself; then it is killed."""
ARGUMENTS: Final = (
    "--enable-blink-features=ComputedAccessibilityInfo",  # roles and names for the snapshot
    "--force-renderer-accessibility",  # computes them once, and not for each question
    "--deny-permission-prompts",
    "--disable-gpu",
    "--disable-quic",
    "--js-flags=--max-old-space-size=512",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--mute-audio",
)
POLICY: Final = {
    "URLBlocklist": ["file://*", "chrome://*", "view-source:*", "ftp://*"],
    "DownloadRestrictions": 3,
    "AutofillAddressEnabled": False,
    "AutofillCreditCardEnabled": False,
    "PasswordManagerEnabled": False,
    "DefaultGeolocationSetting": 2,
    "DefaultNotificationsSetting": 2,
    "DefaultWebBluetoothGuardSetting": 2,
    "DefaultWebUsbGuardSetting": 2,
    "DefaultSerialGuardSetting": 2,
    "AudioCaptureAllowed": False,
    "VideoCaptureAllowed": False,
    "ScreenCaptureAllowed": False,
    "SafeBrowsingProtectionLevel": 0,
    "SearchSuggestEnabled": False,
    "TranslateEnabled": False,
}
"""Settings of the browser that pages cannot change: a second line behind our own checks.

Source: https://chromeenterprise.google/policies/
"""
POLICIES: Final = ("/etc/chromium/policies/managed", "/etc/opt/chrome/policies/managed")
SYSTEM: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/fonts", "/etc/chromium.d")
"""Files of the system that Chromium reads, beside /usr."""


class Chromium:
    """A running browser. `proxies` is the folder with the sockets of the proxies."""

    def __init__(self, folder: Path, playwright: "Playwright", browser: "Browser") -> None:
        self._folder, self._playwright, self.browser = folder, playwright, browser

    @classmethod
    async def start(cls) -> Self:
        """Start the browser; raises `ToolFailed` where it cannot run."""
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415 (heavy, optional)

        folder = Path(tempfile.mkdtemp(prefix="hearth-browser-"))
        (folder / "proxies").mkdir()
        (folder / "policies").mkdir()
        (folder / "policies" / "hearth.json").write_text(json.dumps(POLICY), encoding="utf-8")
        try:
            launcher = written_launcher(folder)
            playwright = await async_playwright().start()
        except BaseException:
            shutil.rmtree(folder)
            raise
        try:
            browser = await playwright.chromium.launch(
                executable_path=launcher,
                chromium_sandbox=True,
                args=list(ARGUMENTS),
                timeout=START_SECONDS * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except BaseException as error:
            await playwright.stop()
            shutil.rmtree(folder)
            if isinstance(error, Error):
                raise ToolFailed(_not_started(error.message)) from error
            raise
        return cls(folder, playwright, browser)

    def socket(self, slot: int) -> Path:
        """Return the path of the unix socket of a slot's proxy."""
        return self._folder / "proxies" / str(slot)

    @staticmethod
    def proxy_address(slot: int) -> str:
        """Return the address at which the browser finds the proxy of a slot."""
        return f"http://127.0.0.1:{FIRST_PORT + slot}"

    async def close(self) -> None:
        """End the browser and everything that it has stored, also if it does not respond."""
        from playwright.async_api import Error  # noqa: PLC0415 (optional)

        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.browser.close()
        except (TimeoutError, Error) as error:
            log.warning("browser_killed", reason=str(error) or "it did not close in time")
        self.kill()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._playwright.stop()
        except TimeoutError:
            log.warning("browser_driver_left", seconds=CLOSE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Kill the sandbox with everything in it, unless it has ended: its number may then be that
        of another process.
        """
        if self.browser.is_connected():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((self._folder / PID).read_text(encoding="ascii")), signal.SIGKILL)


def written_launcher(folder: Path) -> Path:
    """Write the script that starts the browser in its sandbox; raises `ToolFailed`."""
    try:
        words = command_line(bubblewrap.find(), folder)
    except SandboxUnusable as error:
        raise ToolFailed(f"The browser runs only in a sandbox. {error}") from error
    launcher = folder / "start"
    pid = shlex.quote(str(folder / PID))
    launcher.write_text(
        f'#!/bin/sh\necho $$ > {pid}\nexec {shlex.join(words)} "$@"\n', encoding="utf-8"
    )
    launcher.chmod(0o700)
    return launcher


def command_line(program: str, folder: Path) -> list[str]:
    """Return the command that starts the browser: it sees the system's programs, no file of a
    person, and the sockets of the proxies."""
    user = str(bubblewrap.USER)
    words = [
        program, "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--uid", user, "--gid", user, "--hostname", "browser",
        "--clearenv", "--setenv", "PATH", bubblewrap.PATH, "--setenv", "HOME", bubblewrap.HOME,
        "--setenv", "LANG", "C.UTF-8", "--ro-bind", "/usr", "/usr",
    ]  # fmt: skip
    for name in bubblewrap.SYSTEM_LINKS:
        place = Path("/", name)
        if place.is_symlink():
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        elif place.is_dir():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    for file in SYSTEM:
        words += ["--ro-bind-try", file, file]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for scratch in ("/tmp", "/dev/shm", bubblewrap.HOME):
        words += ["--perms", "0700", "--size", str(SCRATCH), "--tmpfs", scratch]
    python = Path(sys.base_prefix)
    if not python.is_relative_to("/usr"):
        words += ["--ro-bind", str(python), str(python)]
    code = "/run/bridge.py"
    words += ["--ro-bind", str(Path(bridge.__file__)), code]
    words += ["--ro-bind", str(folder / "proxies"), SOCKETS]
    for policies in POLICIES:
        words += ["--ro-bind", str(folder / "policies"), policies]
    words += ["--remount-ro", "/", "--", "/usr/bin/prlimit", f"--data={MEMORY}", "--core=0", "--"]
    words += [bubblewrap.python(), "-I", code]
    return [*words, str(FIRST_PORT), SOCKETS, str(SLOTS), CHROMIUM.path() or CHROMIUM.name]


def _not_started(message: str) -> str:
    """Return a sentence for the text of a failed start, which has many lines."""
    lines = [line.strip() for line in message.splitlines()]
    told = next((line for line in lines if "bwrap:" in line or "FATAL" in line), lines[0])
    return f"The browser did not start: {told[:300]}"
