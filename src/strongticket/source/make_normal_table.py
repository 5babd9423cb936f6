"""Make the table of normal quantiles with the standard library alone.

``python -m strongticket.source.make_normal_table`` writes ``normal_table.bin`` beside this file.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from statistics import NormalDist

ENTRIES = 65536
TABLE_FILE = Path(__file__).with_name("normal_table.bin")


def table_bytes() -> bytes:
    """The 65,536 quantiles Φ⁻¹((k + 1/2) / 65536) as little-endian float32, k = 0 first.

    The upper half is computed and the lower half is its mirror image, so that entry 65535 - k is exactly
    minus entry k.
    """
    inverse = NormalDist().inv_cdf
    upper = [-inverse((k + 0.5) / ENTRIES) for k in range(ENTRIES // 2)][::-1]
    lower = [-value for value in reversed(upper)]
    return struct.pack(f"<{ENTRIES}f", *lower, *upper)


def main() -> None:
    """Write the table and print the SHA-256 that ``table.py`` pins."""
    content = table_bytes()
    TABLE_FILE.write_bytes(content)
    print(f"{TABLE_FILE.name}: {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
