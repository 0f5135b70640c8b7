// Verifies the signatures of BatchKit's frames: see wire-format.md.
import { createHmac, timingSafeEqual } from 'node:crypto';

// Returns the frame inside a signed one that this node received, or throws.
export function openFrame(bytes, keys, node, maxAge = 86_400_000) {
    const signed = Buffer.from(bytes);
    if (signed.length < 48 || signed.toString('latin1', 0, 4) !== 'BKS\x02') throw new Error('The frame is not signed.');
    const hmac = signed.subarray(16, 48);
    const isGenuine = key => timingSafeEqual(createHmac('sha256', key).update(signed.subarray(0, 16)).update(signed.subarray(48)).digest(), hmac);
    if (!keys.some(isGenuine)) throw new Error('No key has signed this frame.');
    const destination = signed.readInt32LE(12);
    if (destination !== -1 && destination !== node) throw new Error('The frame is for another node.');
    if (Math.abs(Date.now() - Number(signed.readBigInt64LE(4))) > maxAge) throw new Error('The frame is too old, or from a clock that is wrong.');
    return new Uint8Array(signed.subarray(48));
}
