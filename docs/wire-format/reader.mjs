// Reads BatchKit's frames: see wire-format.md. Works in browsers and in Node.js. Throws a FrameError for what is no frame.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
export class FrameError extends Error { }
const check = (isRight, what) => { if (!isRight) throw new FrameError(`The bytes are no frame: ${what}.`); };

class Frame {
    constructor(bytes) { Object.assign(this, { bytes, at: 0, handles: [], headers: [], texts: [], trace: null }); }

    // Nothing asks for more than the frame has.
    fits(count, bytesEach = 1) { check(count * bytesEach <= this.bytes.length - this.at, 'they end too early'); return count; }
    take(count) { return this.bytes.subarray(this.at, this.at += this.fits(count)); }
    byte() { return this.take(1)[0]; }

    // A batch's and a connection's number may be above what a JavaScript number holds exactly.
    big(least = 0n, most = 2n ** 63n - 1n) {
        let value = 0n;
        for (let shift = 0n, byte = 0x80; byte >= 0x80; shift += 7n) {
            byte = this.byte();
            check(shift < 63n || byte === 0, 'a number is too long');
            value |= BigInt(byte & 0x7f) << shift;
        }
        check(value >= least && value <= most, `${value} is not from ${least} to ${most}`);
        return value;
    }
    number(least, most) { return Number(this.big(least, most)); }
    count(least, bytesEach) { return this.fits(this.number(least), bytesEach); }
    list(count, read) { return Array.from({ length: count }, read); }
    long() { return BigInt.asIntN(64, this.take(8).reduceRight((value, byte) => value << 8n | BigInt(byte), 0n)); }
    text(least) { try { return utf8.decode(this.take(this.count(least))); } catch (error) { throw new FrameError(error.message); } }
    known(values, number) { check(number >= 1 && number <= values.length, 'a number stands for nothing'); return values[number - 1]; }

    sharedText() {
        const number = this.version === 1 ? 0 : this.number();
        if (number > 0) return this.known(this.texts, number);
        const text = this.text();
        if (text.length <= 255 && this.texts.length < 127) this.texts.push(text);
        return text;
    }

    // A header, and how many of the next messages have the same one.
    header(mostRepeats) {
        let flags = this.byte(), extra = 0;
        const header = { replyTo: null, correlation: new Uint8Array(), retained: false };
        if (this.version > 1 && flags === 3) {
            check((extra = this.byte()) > 0 && extra < 8, 'a flag is unknown');
            if (extra & 1) header.replyTo = this.sharedText();
            if (extra & 2) header.correlation = this.take(this.count());
            header.retained = extra >= 4;
            flags = this.byte();
        } else if (this.version > 1 && (flags & 3) === 3) return [this.known(this.headers, flags >> 2), 0];
        check((flags & 3) < 3 && (this.version > 1 || flags < 0x40), 'a flag or a kind is unknown');
        header.kind = ['output', 'prompt', 'control'][flags & 3];
        header.excluded = flags & 0x04 ? this.list(this.count(), () => this.big(1n).toString()) : [];
        header.key = flags & 0x08 ? this.text() : null;
        header.contentType = flags & 0x10 ? this.sharedText() : null;
        header.type = flags & 0x40 ? this.sharedText() : null;
        header.properties = flags & 0x20 ? this.list(this.count(0, 2), () => [this.sharedText(), this.text()]) : [];
        if ((extra || flags & 0x7c) && this.headers.length < 63) this.headers.push(header);
        return [header, flags & 0x80 ? this.number(1, mostRepeats) : 0];
    }

    allHeaders(headers) {
        for (let left = this.number(1, headers.length), place = 0; left > 0;) {
            place += this.number(0, headers.length - 1 - place);
            const [header, repeats] = this.header(Math.min(left, headers.length - place) - 1);
            headers.fill(header, place, place += 1 + repeats);
            left -= 1 + repeats;
        }
    }

    batch(before, isFirst, isOnly) {
        const flags = this.byte(), isShort = flags >= 0x80;
        check(before < 2n ** 63n - 1n && (isShort || flags < 0x20 && (isFirst || !(flags & 4))), 'a flag is unknown, or a batch or a trace is too late');
        if (!isShort && flags & 4) this.trace = this.take(25);
        check(!this.trace || [this.trace.subarray(0, 16), this.trace.subarray(16, 24)].every(id => id.some(byte => byte)), 'a trace has no id');
        const number = isShort ? before + 1n : this.big(before + 1n);
        const isKnown = isShort || (flags & 8) !== 0;
        const handle = isKnown ? this.known(this.handles, isShort ? flags & 0x3f : this.byte()) : flags & 1 ? { name: this.text(1) } : { connection: this.big(1n).toString() };
        if (!isKnown && !isOnly && this.handles.length < 63) this.handles.push(handle);
        const count = isShort ? 1 : this.count(1), payloadBytes = this.count();
        const lengths = isShort ? [payloadBytes] : this.list(count, () => this.number(0, payloadBytes));
        check(lengths.reduce((sum, length) => sum + length, 0) === payloadBytes, 'the lengths do not add up');
        const headers = Array(count).fill(null), latest = Array(count).fill(null);
        if (flags & (isShort ? 0x40 : 2)) this.allHeaders(headers);
        if (!isShort && flags & 0x10) for (let left = this.number(1, count), place = 0; left > 0; left--) latest[(place += this.number(0, count - 1 - place) + 1) - 1] = this.long().toString();
        return { number, handle, messages: lengths.map((length, index) => ({ header: headers[index], latest: latest[index], payload: this.take(length) })) };
    }

    read() {
        check(this.take(3).join() === '66,75,70', 'they begin in another way');
        check([1, 2].includes(this.version = this.byte()), 'their version is unknown');
        const producer = { node: this.number(0, 65535), epoch: this.long().toString(), partition: this.number(0, 2 ** 31 - 1) };
        const batches = [], count = this.count(1, 2);
        while (batches.length < count) batches.push(this.batch(batches.at(-1)?.number ?? 0n, batches.length === 0, count === 1));
        check(this.at === this.bytes.length, 'more follows');
        return { producer, trace: this.trace, batches };
    }
}

export const readFrame = bytes => new Frame(bytes).read();
