"""Code that is run without standing anywhere as code: decoded, unpacked, put together."""

import re
from collections.abc import Iterator

from forgepool.supervisor.scans.evasion.program import ChangedProgram, Oddity

_RUN = re.compile(r"(?<![\w.])(exec|eval|compile|Function|loadstring|instance_eval)\s*\(|\|\s*(ba|z|da)?sh\b|\beval\b")
_DECODED = re.compile(
    r"b(16|32|64|85)decode|a85decode|unhexlify|\bfromhex\b|\bdecompress\b|marshal\.loads|codecs\.decode|\batob\(|"
    r"fromCharCode|Buffer\.from\(|base64 (-d|--decode)|Base64\.(decode|getDecoder)|xxd -r"
)
_SAID = "this runs encoded code; write it as plain code"


def find_veiled(program: ChangedProgram) -> Iterator[Oddity]:
    """Every line that runs what it has decoded; tests and scripts are no exception."""
    for number, text in program.lines:
        if _RUN.search(text) and _DECODED.search(text):
            yield Oddity(line=number, text=text, said=_SAID)
