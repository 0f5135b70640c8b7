"""Reads BatchKit's frames: see wire-format.md. Raises a ValueError for what is no frame."""

def check(is_right, what):
    if not is_right:
        raise ValueError(f"the bytes are no frame: {what}")


class Frame:
    def __init__(self, data):
        self.data, self.at, self.trace, self.handles, self.headers, self.texts = data, 0, None, [], [], []

    def fits(self, count, bytes_each=1):  # Nothing asks for more than the frame has.
        check(count * bytes_each <= len(self.data) - self.at, "they end too early")
        return count
    def take(self, count):
        self.at += self.fits(count)
        return self.data[self.at - count:self.at]
    def number(self, least=0, most=2**63 - 1):
        value, shift, byte = 0, 0, 0x80
        while byte >= 0x80 and shift < 70:
            byte = self.take(1)[0]
            value, shift = value | (byte & 0x7F) << shift, shift + 7
        check(byte < 0x80 and least <= value <= most, "a number is too low, too high or too long")
        return value
    def count(self, least=0, bytes_each=1): return self.fits(self.number(least), bytes_each)
    def long(self): return int.from_bytes(self.take(8), "little", signed=True)
    def text(self, least=0): return self.take(self.count(least)).decode("utf-8")
    def known(self, values, number):
        check(1 <= number <= len(values), "a number stands for nothing")
        return values[number - 1]
    def shared_text(self):
        number = self.number() if self.version > 1 else 0
        if number:
            return self.known(self.texts, number)
        text = self.text()
        self.texts += [text] if len(text.encode("utf-16-le")) <= 2 * 255 and len(self.texts) < 127 else []
        return text

    def header(self, most_repeats):
        flags, extra = self.take(1)[0], 0  # Returns it, and how many of the next messages have the same one.
        header = {"replyTo": None, "correlation": b"", "retained": False}
        if self.version > 1 and flags == 3:
            extra = self.take(1)[0]
            check(0 < extra < 8, "a flag is unknown")
            header = {"replyTo": self.shared_text() if extra & 1 else None, "correlation": self.take(self.count()) if extra & 2 else b"", "retained": extra >= 4}
            flags = self.take(1)[0]
        elif self.version > 1 and flags & 3 == 3:
            return self.known(self.headers, flags >> 2), 0
        check(flags & 3 < 3 and (self.version > 1 or flags < 0x40), "a flag or a kind is unknown")
        header["kind"] = ("output", "prompt", "control")[flags & 3]
        header["excluded"] = [str(self.number(1)) for _ in range(self.count())] if flags & 0x04 else []
        header["key"] = self.text() if flags & 0x08 else None
        header["contentType"] = self.shared_text() if flags & 0x10 else None
        header["type"] = self.shared_text() if flags & 0x40 else None
        header["properties"] = [[self.shared_text(), self.text()] for _ in range(self.count(0, 2))] if flags & 0x20 else []
        self.headers += [header] if (extra or flags & 0x7C) and len(self.headers) < 63 else []
        return header, self.number(1, most_repeats) if flags & 0x80 else 0

    def all_headers(self, count):
        headers, left = [], self.number(1, count)
        while left > 0:
            headers += [None] * self.number(0, count - 1 - len(headers))
            header, repeats = self.header(min(left, count - len(headers)) - 1)
            headers += [header] * (1 + repeats)
            left -= 1 + repeats
        return headers + [None] * (count - len(headers))

    def batch(self, before, is_first, is_only):
        flags = self.take(1)[0]
        is_short = flags >= 0x80
        check(before < 2**63 - 1 and (is_short or flags < 0x20 and (is_first or not flags & 4)), "a flag is unknown, or a batch or a trace is too late")
        self.trace = self.take(25) if not is_short and flags & 4 else self.trace
        check(not self.trace or any(self.trace[:16]) and any(self.trace[16:24]), "a trace has no id")
        number = before + 1 if is_short else self.number(before + 1)
        is_known = is_short or flags & 8
        handle = self.known(self.handles, flags & 0x3F if is_short else self.take(1)[0]) if is_known else {"name": self.text(1)} if flags & 1 else {"connection": str(self.number(1))}
        self.handles += [handle] if not is_known and not is_only and len(self.handles) < 63 else []
        count, payload_bytes = 1 if is_short else self.count(1), self.count()
        lengths = [payload_bytes] if is_short else [self.number(0, payload_bytes) for _ in range(count)]
        check(sum(lengths) == payload_bytes, "the lengths do not add up")
        headers = self.all_headers(count) if flags & (0x40 if is_short else 2) else [None] * count
        latest, place = [None] * count, 0
        for _ in range(self.number(1, count) if flags & 0x90 == 0x10 else 0):
            place += self.number(0, count - 1 - place) + 1
            latest[place - 1] = str(self.long())
        messages = [{"header": header, "latest": key, "payload": self.take(length)} for header, key, length in zip(headers, latest, lengths)]
        return {"number": number, "handle": handle, "messages": messages}

    def read(self):
        magic, self.version = self.take(3), self.take(1)[0]
        check(magic == b"BKF" and self.version in (1, 2), "they begin in another way, or their version is unknown")
        producer = {"node": self.number(0, 65535), "epoch": str(self.long()), "partition": self.number(0, 2**31 - 1)}
        batches, count = [], self.count(1, 2)
        while len(batches) < count:
            batches.append(self.batch(batches[-1]["number"] if batches else 0, not batches, count == 1))
        check(self.at == len(self.data), "more follows")
        return {"producer": producer, "trace": self.trace and self.trace.hex(), "batches": batches}


def read_frame(data): return Frame(data).read()
