"""Reads BatchKit's frames: see wire-format.md."""

KINDS = ("output", "prompt", "control")


class Frame:
    def __init__(self, data):
        self.data, self.at, self.trace, self.handles, self.headers, self.texts = data, 0, None, [], [], []

    def take(self, count):
        if count > len(self.data) - self.at:
            raise ValueError("the frame ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self):
        byte = self.take(1)[0]
        return byte if byte < 0x80 else byte & 0x7F | self.number() << 7

    def long(self):
        return int.from_bytes(self.take(8), "little", signed=True)

    def text(self):
        return self.take(self.number()).decode("utf-8")

    def shared_text(self):
        number = self.number() if self.version > 1 else 0
        if number:
            return self.texts[number - 1]
        text = self.text()
        if len(text.encode("utf-16-le")) <= 2 * 255 and len(self.texts) < 127:
            self.texts.append(text)
        return text

    def header(self):
        flags = self.take(1)[0]  # Returns it, and how many of the next messages have the same one.
        extended = self.version > 1 and flags == 3
        header = {"replyTo": None, "correlation": b"", "retained": False}
        if extended:
            extra = self.take(1)[0]
            header = {"replyTo": self.shared_text() if extra & 1 else None, "correlation": self.take(self.number()) if extra & 2 else b"", "retained": bool(extra & 4)}
            flags = self.take(1)[0]
        elif self.version > 1 and flags & 3 == 3:
            return self.headers[(flags >> 2) - 1], 0
        header["kind"] = KINDS[flags & 3]
        header["excluded"] = [str(self.number()) for _ in range(self.number())] if flags & 0x04 else []
        header["key"] = self.text() if flags & 0x08 else None
        header["contentType"] = self.shared_text() if flags & 0x10 else None
        header["type"] = self.shared_text() if flags & 0x40 else None
        header["properties"] = [[self.shared_text(), self.text()] for _ in range(self.number())] if flags & 0x20 else []
        if (extended or flags & 0x7C) and len(self.headers) < 63:
            self.headers.append(header)
        return header, self.number() if flags & 0x80 else 0

    def all_headers(self, count):
        headers, left, place = [None] * count, self.number(), 0
        while left > 0:
            place += self.number()
            header, repeats = self.header()
            headers[place:place + 1 + repeats] = [header] * (1 + repeats)
            place += 1 + repeats
            left -= 1 + repeats
        return headers

    def batch(self, before, isOnly):
        flags = self.take(1)[0]
        if flags & 0x80:
            number, handle, lengths, has_headers = before + 1, self.handles[(flags & 0x3F) - 1], [self.number()], flags & 0x40
        else:
            self.trace = self.take(25) if flags & 4 else self.trace
            number = self.number()
            handle = self.handles[self.take(1)[0] - 1] if flags & 8 else {"name": self.text()} if flags & 1 else {"connection": str(self.number())}
            if not flags & 8 and not isOnly and len(self.handles) < 63:
                self.handles.append(handle)
            count, _ = self.number(), self.number()
            lengths, has_headers = [self.number() for _ in range(count)], flags & 2
        headers = self.all_headers(len(lengths)) if has_headers else [None] * len(lengths)
        latest, place = [None] * len(lengths), 0
        for _ in range(self.number() if flags & 0x90 == 0x10 else 0):
            place += self.number() + 1
            latest[place - 1] = str(self.long())
        messages = [{"header": header, "latest": key, "payload": self.take(length)} for header, key, length in zip(headers, latest, lengths)]
        return {"number": number, "handle": handle, "messages": messages}

    def read(self):
        if self.take(3) != b"BKF":
            raise ValueError("these bytes are no frame")
        self.version = self.take(1)[0]
        if self.version not in (1, 2):
            raise ValueError(f"version {self.version} is unknown")
        producer = {"node": self.number(), "epoch": str(self.long()), "partition": self.number()}
        batches, count = [], self.number()
        while len(batches) < count:
            batches.append(self.batch(batches[-1]["number"] if batches else 0, count == 1))
        return {"producer": producer, "trace": self.trace and self.trace.hex(), "batches": batches}


def read_frame(data):
    return Frame(data).read()
