// Reads BatchKit's frames: see wire-format.md. Works in browsers and in Node.js.
const kinds = ['output', 'prompt', 'control'];
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

class Frame {
    constructor(bytes) {
        Object.assign(this, { bytes, at: 0, handles: [], headers: [], texts: [], trace: null });
    }

    take(count) {
        if (count > this.bytes.length - this.at) throw new Error('The frame ends too early.');
        return this.bytes.subarray(this.at, this.at += Number(count));
    }

    byte() { return this.take(1)[0]; }

    // A batch's and a connection's number may be above what a JavaScript number holds exactly.
    big() {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = this.byte();
            value |= BigInt(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
    }

    number() { return Number(this.big()); }
    long() { return BigInt.asIntN(64, this.take(8).reduceRight((value, byte) => value << 8n | BigInt(byte), 0n)); }
    text() { return utf8.decode(this.take(this.number())); }
    list(read) { return Array.from({ length: this.number() }, read); }

    sharedText() {
        const number = this.version === 1 ? 0 : this.number();
        if (number > 0) return this.texts[number - 1];
        const text = this.text();
        if (text.length <= 255 && this.texts.length < 127) this.texts.push(text);
        return text;
    }

    // A header, and how many of the next messages have the same one.
    header() {
        let flags = this.byte();
        let header = { replyTo: null, correlation: new Uint8Array(), retained: false };
        const isExtended = this.version > 1 && flags === 3;
        if (isExtended) {
            const extra = this.byte();
            header = { replyTo: extra & 1 ? this.sharedText() : null, correlation: extra & 2 ? this.take(this.number()) : header.correlation, retained: (extra & 4) !== 0 };
            flags = this.byte();
        } else if (this.version > 1 && (flags & 3) === 3) {
            return [this.headers[(flags >> 2) - 1], 0];
        }

        header.kind = kinds[flags & 3];
        header.excluded = flags & 0x04 ? this.list(() => this.big().toString()) : [];
        header.key = flags & 0x08 ? this.text() : null;
        header.contentType = flags & 0x10 ? this.sharedText() : null;
        header.type = flags & 0x40 ? this.sharedText() : null;
        header.properties = flags & 0x20 ? this.list(() => [this.sharedText(), this.text()]) : [];
        if ((isExtended || flags & 0x7c) && this.headers.length < 63) this.headers.push(header);
        return [header, flags & 0x80 ? this.number() : 0];
    }

    allHeaders(headers) {
        for (let left = this.number(), place = 0; left > 0;) {
            place += this.number();
            const [header, repeats] = this.header();
            headers.fill(header, place, place += 1 + repeats);
            left -= 1 + repeats;
        }
    }

    batch(before, isOnly) {
        const flags = this.byte();
        const isShort = flags >= 0x80;
        if (!isShort && flags & 4) this.trace = this.take(25);
        const number = isShort ? before + 1n : this.big();
        const known = isShort ? flags & 0x3f : flags & 8 ? this.byte() : 0;
        const handle = known ? this.handles[known - 1] : flags & 1 ? { name: this.text() } : { connection: this.big().toString() };
        if (!known && !isOnly && this.handles.length < 63) this.handles.push(handle);
        const count = isShort ? 1 : this.number(), payloadBytes = this.number();
        const lengths = isShort ? [payloadBytes] : Array.from({ length: count }, () => this.number());
        const headers = Array(count).fill(null);
        if (flags & (isShort ? 0x40 : 2)) this.allHeaders(headers);
        const latest = Array(count).fill(null);
        if (!isShort && flags & 0x10) for (let left = this.number(), place = 0; left > 0; left--) latest[(place += this.number() + 1) - 1] = this.long().toString();
        return { number, handle, messages: lengths.map((length, index) => ({ header: headers[index], latest: latest[index], payload: this.take(length) })) };
    }

    read() {
        if (utf8.decode(this.take(3)) !== 'BKF') throw new Error('These bytes are no frame.');
        this.version = this.byte();
        if (this.version !== 1 && this.version !== 2) throw new Error(`Version ${this.version} is unknown.`);
        const producer = { node: this.number(), epoch: this.long().toString(), partition: this.number() };
        const batches = [];
        for (let left = this.number(), isOnly = left === 1; left > 0; left--) batches.push(this.batch(batches.at(-1)?.number ?? 0n, isOnly));
        return { producer, trace: this.trace, batches };
    }
}

export const readFrame = bytes => new Frame(bytes).read();
