"""PDFs that are made byte by byte."""

from collections.abc import Sequence

PLAIN = "BT /F1 12 Tf 72 720 Td (Plain text of this page.) Tj ET"
"""The content of a page that no rule finds fault with."""
ENCRYPTED = (
    "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]"
    f" /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'ab' * 32}> /U <{'cd' * 32}> >>"
)
"""The trailer of a PDF with a password that nobody knows."""


def pdf(
    contents: Sequence[str] = (PLAIN,), annotations: str = "", page: str = "", trailer: str = ""
) -> bytes:
    """Return a PDF whose pages have these contents; the first has the annotations. `page` is added
    to each page, `trailer` to the trailer."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        first = annotations if number == 0 else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
            f" /Resources << /Font << /F1 3 0 R >> >> {first} {page} >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    body, places = "%PDF-1.7\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\n"
    return f"{body}{end}startxref\n{len(body)}\n%%EOF\n".encode("latin-1")
