// SPDX-License-Identifier: Apache-2.0 - tar, read and written piece by piece.

import { ArchiveError } from "./errors.js";

// A header is a block of 512 bytes: name 0..100, mode 100..108, size 124..136, mtime 136..148,
// sum 148..156, type 156, link name 157..257, "ustar" 257.., prefix 345..500; numbers in octal, or
// with their first bit set in base 256. The content follows, filled up to whole blocks. Two blocks
// of zeros end it. An entry of type x holds "LENGTH key=value\n" lines for the entry after it,
// one of type L its long name.

const BLOCK = 512;
const EXTENDED_BYTES = 1 << 20;

export interface TarEntry {
  name: string;
  kind: "file" | "directory" | "symlink" | "hardlink" | "other";
  mode: number;
  size: number;
}

export function unsafe(what: string, hint?: string): ArchiveError {
  return new ArchiveError(what, { code: "unsafe_archive", hint: hint ?? null });
}

/** Takes exact counts of bytes from pieces of any length. */
class Bytes {
  #piece: Uint8Array = new Uint8Array();

  constructor(private readonly source: AsyncIterator<Uint8Array>) {}

  /** At most `most` bytes, at least one; null at the end. */
  async some(most: number): Promise<Uint8Array | null> {
    while (!this.#piece.length) {
      const next = await this.source.next();
      if (next.done) return null;
      this.#piece = next.value;
    }
    const out = this.#piece.subarray(0, most);
    this.#piece = this.#piece.subarray(out.length);
    return out;
  }

  /** Exactly so many; null at the end, an error in between. */
  async exactly(count: number): Promise<Buffer | null> {
    const parts: Uint8Array[] = [];
    for (let left = count; left > 0; ) {
      const part = await this.some(left);
      if (!part) {
        if (left === count) return null;
        throw unsafe("The archive is cut off.");
      }
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }
}

function number(field: Buffer): number {
  if ((field[0] ?? 0) & 0x80) {
    let value = (field[0] ?? 0) & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    return value;
  }
  const digits = field.toString("latin1").replace(/[\0 ]+$/, "").trim();
  if (!/^[0-7]*$/.test(digits)) throw unsafe("The archive has a header that is none.");
  return digits ? parseInt(digits, 8) : 0;
}

function name(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end);
}

function checkSum(header: Buffer): void {
  let sum = 0;
  header.forEach((byte, at) => (sum += at >= 148 && at < 156 ? 32 : byte));
  if (number(header.subarray(148, 156)) !== sum) throw unsafe("The archive has a header that is none.");
}

function extended(data: Buffer): Map<string, string> {
  const out = new Map<string, string>();
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(32, at);
    const length = Number(data.toString("latin1", at, space));
    const line = data.subarray(space + 1, at + length - 1);
    const equals = line.indexOf(61);
    if (space < 0 || !Number.isInteger(length) || length < 5 || at + length > data.length || equals < 1) {
      throw unsafe("The archive has a header that is none.");
    }
    out.set(line.toString("utf8", 0, equals), line.toString("utf8", equals + 1));
    at += length;
  }
  return out;
}

const KINDS: Record<string, TarEntry["kind"]> = {
  "\0": "file",
  "0": "file",
  "7": "file",
  "5": "directory",
  "2": "symlink",
  "1": "hardlink",
};

/** An entry, and its content, which must be read before the next entry is asked for. */
export interface ReadEntry extends TarEntry {
  content: AsyncGenerator<Uint8Array, void, undefined>;
}

/** The entries of an archive; throws ArchiveError for what is none. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<ReadEntry, void, undefined> {
  const bytes = new Bytes(source[Symbol.asyncIterator]());
  let long: string | undefined;
  let given = new Map<string, string>();
  for (;;) {
    const header = await bytes.exactly(BLOCK);
    if (!header) throw unsafe("The archive is cut off.");
    if (header.every((byte) => byte === 0)) return;
    checkSum(header);
    const type = String.fromCharCode(header[156] ?? 0);
    const stated = given.get("size");
    const size = stated === undefined ? number(header.subarray(124, 136)) : Number(stated);
    if (!Number.isSafeInteger(size) || size < 0) throw unsafe("The archive has an entry of no size.");
    const padding = (BLOCK - (size % BLOCK)) % BLOCK;
    if ("xgLK".includes(type)) {
      if (size > EXTENDED_BYTES) throw unsafe("The archive has a header that is too long.");
      const data = (await bytes.exactly(size)) ?? Buffer.alloc(0);
      if (data.length !== size) throw unsafe("The archive is cut off.");
      await bytes.exactly(padding);
      if (type === "x") given = extended(data);
      if (type === "L") long = name(data);
      continue;
    }
    const prefix = header.toString("latin1", 257, 262) === "ustar" ? name(header.subarray(345, 500)) : "";
    const short = name(header.subarray(0, 100));
    const sparse = [...given.keys()].some((key) => key.startsWith("GNU.sparse"));
    const kind = sparse ? "other" : (KINDS[type] ?? "other");
    let left = kind === "file" || kind === "other" ? size : 0;
    const content = (async function* () {
      while (left > 0) {
        const piece = await bytes.some(left);
        if (!piece) throw unsafe("The archive is cut off.");
        left -= piece.length;
        yield piece;
      }
    })();
    const skipped = left > 0 ? padding : 0;
    yield {
      name: given.get("path") ?? long ?? (prefix ? `${prefix}/${short}` : short),
      kind: kind === "file" && short.endsWith("/") ? "directory" : kind,
      mode: number(header.subarray(100, 108)),
      size,
      content,
    };
    for await (const _ of content);
    if (skipped) await bytes.exactly(skipped);
    long = undefined;
    given = new Map();
  }
}

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width - 1, "0") + "\0";
}

function header(fields: { name: string; mode: number; size: number; mtime: number; type: string }): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(fields.name, 0, 100);
  block.write(octal(fields.mode & 0o777, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(Math.min(fields.size, 0o77777777777), 12), 124);
  block.write(octal(Math.max(0, Math.min(fields.mtime, 0o77777777777)), 12), 136);
  block.write("        ", 148);
  block.write(fields.type, 156);
  block.write("ustar\x0000", 257);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(octal(sum, 7) + " ", 148);
  return block;
}

export function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

function line(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  let length = bytes + String(bytes).length;
  if (String(length).length !== String(bytes).length) length = bytes + String(length).length;
  return `${length}${rest}`;
}

/** The header of an entry; its content and `padding(size)` follow. */
export function tarHeader(entry: TarEntry, mtime: number): Buffer {
  const directory = entry.kind === "directory";
  const full = directory ? `${entry.name}/` : entry.name;
  const plain = /^[\x20-\x7e]{1,99}$/.test(full);
  const large = entry.size > 0o77777777777;
  const size = directory ? 0 : entry.size;
  const own = header({
    name: plain ? full : "long",
    mode: entry.mode,
    size,
    mtime,
    type: directory ? "5" : "0",
  });
  if (plain && !large) return own;
  const lines = Buffer.from((plain ? "" : line("path", full)) + (large ? line("size", String(size)) : ""));
  const before = header({ name: "pax", mode: 0o644, size: lines.length, mtime, type: "x" });
  return Buffer.concat([before, lines, padding(lines.length), own]);
}

export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);
