"""A process with secrets: in its environment, its command line, its memory, and in a file without a name."""

import ctypes
import os
import sys


def main(memory: str, unnamed: str) -> None:
    buffer = ctypes.create_string_buffer(memory.encode(), 256)
    ctypes.CDLL(None).prctl(
        0x59616D61, ctypes.c_long(-1), 0, 0, 0
    )  # with Yama's restriction it could not be traced at all
    file = os.memfd_create("unnamed")
    os.write(file, unnamed.encode())
    print(ctypes.addressof(buffer), file, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.stdin.readline().strip(), sys.stdin.readline().strip())
