"""Verifies the signatures of BatchKit's frames: see wire-format.md."""
import hashlib
import hmac
import struct
import time


def open_frame(data, keys, node, max_age=86_400):
    """Returns the frame inside a signed one that this node received, or raises ValueError."""
    if len(data) < 48 or data[:4] != b"BKS\x02":
        raise ValueError("the frame is not signed")
    if not any(hmac.compare_digest(hmac.digest(key, data[:16] + data[48:], hashlib.sha256), data[16:48]) for key in keys):
        raise ValueError("no key has signed this frame")
    sent, destination = struct.unpack("<qi", data[4:16])
    if destination not in (-1, node):
        raise ValueError("the frame is for another node")
    if abs(time.time() - sent / 1000) > max_age:
        raise ValueError("the frame is too old, or from a clock that is wrong")
    return data[48:]
