#!/usr/bin/python
"""Reads the state of the machine it runs on, with nothing but Python's own library."""

import hashlib
import os
import ssl
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: machine_report
short_description: Tell how a machine is, for the probe of drift
description:
  - Reads units, checksums of programs, ends of certificates, free space and the clock. Writes
    nothing.
options:
  units:
    description: Units of systemd.
    type: list
    elements: str
    default: []
  binaries:
    description: Programs; links are followed.
    type: list
    elements: path
    default: []
  certificates:
    description: Certificates, PEM.
    type: list
    elements: path
    default: []
  disks:
    description: Paths whose file systems are measured.
    type: list
    elements: path
    default: []
  reads:
    description: >-
      Unit -> the files that it reads when it starts. Those that were written since are told: a run
      that was cut short may have left a unit with what it had before.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: It never changes anything.
author: [Hearth]
"""

EXAMPLES = """
- name: Read the state of the machine
  machine_report:
    units: [consul.service, nomad.service]
    binaries: [/usr/local/bin/consul]
    certificates: [/etc/consul.d/tls/machine.pem]
    disks: [/, /var/lib/hearth]
  register: report
"""

RETURN = """
report:
  description: What was read, by kind and then by unit or path.
  returned: always
  type: dict
"""


def unit(name):
    """What systemd says of a unit."""
    asked = ["systemctl", "show", "-p", "ActiveState", "-p", "UnitFileState", name]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    said = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    return {
        "active": said.get("ActiveState", "unknown"),
        "enabled": said.get("UnitFileState", ""),
    }


def start_of(name):
    """When the main process of a unit was started, epoch seconds; None when it does not run."""
    asked = [
        "systemctl",
        "show",
        "-p",
        "ActiveState",
        "-p",
        "ExecMainStartTimestampMonotonic",
        name,
    ]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    said = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    if said.get("ActiveState") != "active":
        return None
    microseconds = int(said.get("ExecMainStartTimestampMonotonic") or 0)
    return time.time() - (time.monotonic() - microseconds / 1e6)


def outdated(reads):
    """The files that are newer than what runs with them; of a link, the link itself counts."""
    newer = []
    for name, files in reads.items():
        start = start_of(name)
        times = {file: os.lstat(file).st_mtime for file in files if os.path.lexists(file)}
        newer += [file for file, written in times.items() if start and written > start]
    return newer


def sha256(path):
    """The checksum of a file; empty when it is not there."""
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def end_of(path):
    """When a certificate ends, seconds since 1970; 0 when it cannot be read."""
    asked = ["openssl", "x509", "-enddate", "-noout", "-in", path]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        return float(ssl.cert_time_to_seconds(told.strip().partition("=")[2]))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0.0


def disk(path):
    """Free and whole size of the file system that holds a path, in bytes, without what is reserved
    for root: `df` calculates its share in use in the same way."""
    told = os.statvfs(path)
    used = told.f_blocks - told.f_bfree
    return {
        "free": told.f_bavail * told.f_frsize,
        "total": (used + told.f_bavail) * told.f_frsize,
    }


def main():
    lists = ("units", "binaries", "certificates", "disks")
    spec = {
        name: {"type": "list", "elements": "str" if name == "units" else "path", "default": []}
        for name in lists
    }
    module = AnsibleModule(
        argument_spec={**spec, "reads": {"type": "dict", "default": {}}}, supports_check_mode=True
    )
    given = module.params
    report = {
        "arch": os.uname().machine,
        "units": {name: unit(name) for name in given["units"]},
        "binaries": {path: sha256(path) for path in given["binaries"]},
        "certificates": {path: end_of(path) for path in given["certificates"]},
        "disks": {path: disk(path) for path in given["disks"] if Path(path).exists()},
        "outdated": outdated(given["reads"]),
        "clock": time.time(),
    }
    module.exit_json(changed=False, report=report)


if __name__ == "__main__":
    main()
