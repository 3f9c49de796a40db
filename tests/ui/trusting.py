"""`python -m tests.ui.trusting HOME CERTIFICATE`: a person tells a browser to trust an authority.

What Chromium on Linux does in `chrome://certificate-manager`, and Mozilla's `certutil -A -t C,,`:
the certificate goes into the database of NSS in that home. The library is there with Chromium.
Source of functions and constants: NSS, pk11pub.h, cert.h, certt.h.
"""

import ctypes
import sys
from pathlib import Path

CA = 1 << 3 | 1 << 4
"""CERTDB_VALID_CA and CERTDB_TRUSTED_CA, for servers that speak TLS."""


def trust(home: Path, certificate: Path) -> None:
    """Raises `OSError` where NSS refuses."""
    folder = home / ".pki" / "nssdb"
    folder.mkdir(parents=True)
    nss, smime = ctypes.CDLL("libnss3.so"), ctypes.CDLL("libsmime3.so")
    for function in (nss.PK11_GetInternalKeySlot, nss.CERT_GetDefaultCertDB):
        function.restype = ctypes.c_void_p
    smime.CERT_DecodeCertFromPackage.restype = ctypes.c_void_p
    _done(nss.NSS_InitReadWrite(f"sql:{folder}".encode()), "open the database")
    slot = ctypes.c_void_p(nss.PK11_GetInternalKeySlot())
    _done(nss.PK11_InitPin(slot, None, b""), "set an empty password")
    data = certificate.read_bytes()
    found = ctypes.c_void_p(smime.CERT_DecodeCertFromPackage(data, len(data)))
    _done(0 if found else -1, "read the certificate")
    _done(nss.PK11_ImportCert(slot, found, ctypes.c_ulong(0), b"Hearth", 0), "import it")
    database = ctypes.c_void_p(nss.CERT_GetDefaultCertDB())
    flags = (ctypes.c_uint * 3)(CA, 0, 0)
    _done(nss.CERT_ChangeCertTrust(database, found, flags), "trust it")
    nss.CERT_DestroyCertificate(found)
    nss.PK11_FreeSlot(slot)
    _done(nss.NSS_Shutdown(), "close the database")


def _done(status: int, what: str) -> None:
    if status != 0:
        raise OSError(f"NSS cannot {what}.")


if __name__ == "__main__":
    trust(Path(sys.argv[1]), Path(sys.argv[2]))
