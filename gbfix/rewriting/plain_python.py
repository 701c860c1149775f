"""Functions of Python's standard library that compute, and do nothing else."""

from __future__ import annotations

from gbfix.analysis.tree import words

#: Give the same for the same arguments, keep nothing, draw nothing, read no file and no clock.
PURE_FUNCTIONS = words(
    """base64.b64decode base64.b64encode binascii.crc32 binascii.hexlify datetime.timedelta
    decimal.Decimal fractions.Fraction hashlib.blake2b hashlib.md5 hashlib.sha1 hashlib.sha256
    hashlib.sha512 json.dumps json.loads string.Template struct.Struct struct.calcsize struct.pack
    struct.unpack zlib.adler32 zlib.crc32"""
)
#: The methods of texts, bytes and of what these functions give, of which the same holds.
PURE_METHODS = words(
    """capitalize count decode digest encode endswith format get hex hexdigest index join lower
    lstrip removeprefix removesuffix replace rstrip split startswith strip substitute title
    total_seconds upper zfill"""
)
