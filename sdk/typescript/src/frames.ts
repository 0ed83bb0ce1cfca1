// SPDX-License-Identifier: Apache-2.0 - the client's side of a WebSocket (RFC 6455): frames, messages.

import { createHash, randomBytes } from "node:crypto";

import { ConnectionError, invalidAnswer } from "./errors.js";

// Plain computation on bytes. The global WebSocket is not used: Node 18 to 21 have none, and it
// sends no Authorization header and knows no unix sockets, so that the key would have to stand in
// the address. What a server sends is checked frame by frame before it is kept: no frame is held
// that is larger than a message may be, so that what waits here is bounded.

/** The most that a message may have. */
export const MESSAGE_BYTES = 1 << 20;
const CONTROL_BYTES = 125;
const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const MORE = 0;
export const TEXT = 1;
export const BINARY = 2;
export const CLOSE = 8;
export const PONG = 10;

const KINDS = new Map<number, Message["kind"]>([
  [TEXT, "text"],
  [BINARY, "binary"],
  [CLOSE, "close"],
  [9, "ping"],
  [PONG, "pong"],
]);

export interface Message {
  kind: "text" | "binary" | "ping" | "pong" | "close";
  data: Uint8Array;
}

/** Messages in and out, whatever carries them. */
export interface Messages {
  readonly closed: boolean;
  receive(timeoutMs: number | null): Promise<Message | null>;
  send(opcode: number, data: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** The headers that ask for a WebSocket, and whether the answer agrees. */
export class Handshake {
  readonly #key = randomBytes(16).toString("base64");

  headers(): Record<string, string> {
    return {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": this.#key,
    };
  }

  /** Throws ConnectionError (`invalid_answer`) unless it is the answer to this key. */
  check(headers: Headers): void {
    const digest = createHash("sha1").update(this.#key + MAGIC).digest("base64");
    const words = (headers.get("connection") ?? "").split(",").map((word) => word.trim().toLowerCase());
    if (
      headers.get("upgrade")?.toLowerCase() !== "websocket" ||
      !words.includes("upgrade") ||
      headers.get("sec-websocket-accept") !== digest ||
      headers.get("sec-websocket-extensions") ||
      headers.get("sec-websocket-protocol")
    ) {
      throw invalidAnswer("The server does not agree to a WebSocket.");
    }
  }
}

/** One message as one frame, as a client sends it. */
export function frame(opcode: number, data: Uint8Array): Uint8Array {
  const count = data.length;
  const size = count < 126 ? 2 : count < 1 << 16 ? 4 : 10;
  const out = Buffer.alloc(size + 4 + count);
  out[0] = 0x80 | opcode;
  out[1] = 0x80 | (size === 2 ? count : size === 4 ? 126 : 127);
  if (size === 4) out.writeUInt16BE(count, 2);
  if (size === 10) out.writeBigUInt64BE(BigInt(count), 2);
  const key = randomBytes(4);
  out.set(key, size);
  data.forEach((byte, at) => (out[size + 4 + at] = byte ^ (key[at & 3] ?? 0)));
  return out;
}

/** The end, for the usual reason. */
export function goodbye(): Uint8Array {
  return frame(CLOSE, Buffer.from([1000 >> 8, 1000 & 0xff]));
}

const goodCode = (code: number): boolean =>
  (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);

interface Frame {
  opcode: number;
  last: boolean;
  content: Buffer;
}

/**
 * Takes bytes as they come, gives the messages that they complete. Throws ConnectionError
 * (`invalid_answer`) for what no server may send. After a goodbye nothing counts any more.
 */
export class Frames {
  #bytes: Uint8Array[] = [];
  #count = 0;
  /** Bytes without which there is no use in putting those that came together. */
  #needed = 2;
  #parts: Buffer[] = [];
  #size = 0;
  #opcode = MORE;
  #over = false;

  *feed(data: Uint8Array): Generator<Message, void, undefined> {
    this.#bytes.push(data);
    this.#count += data.length;
    if (this.#count < this.#needed || this.#over) return;
    let rest = Buffer.concat(this.#bytes);
    this.#bytes = [];
    this.#count = 0;
    this.#needed = 2;
    for (let taken; !this.#over && (taken = this.#next(rest)); ) {
      rest = rest.subarray(taken.length);
      const message = this.#take(taken.frame);
      if (message) yield message;
    }
    if (this.#over) return;
    this.#bytes = [rest];
    this.#count = rest.length;
  }

  /** The next whole frame, and how many bytes it has; null when it has not all come. */
  #next(bytes: Buffer): { frame: Frame; length: number } | null {
    const [first, second] = bytes;
    if (first === undefined || second === undefined) return null;
    const opcode = first & 15;
    const last = (first & 0x80) !== 0;
    let count = second & 0x7f;
    if (first & 0x70 || second & 0x80 || (opcode !== MORE && !KINDS.has(opcode))) {
      throw invalidAnswer("The terminal sent a frame of a kind that was not agreed on.");
    }
    if (opcode >= CLOSE && (count > CONTROL_BYTES || !last)) {
      throw invalidAnswer("The terminal sent a control frame that is too long or in parts.");
    }
    const begin = count === 126 ? 4 : count === 127 ? 10 : 2;
    if (bytes.length < begin) return null;
    if (begin === 4) count = bytes.readUInt16BE(2);
    if (begin === 10) count = Number(bytes.readBigUInt64BE(2));
    if ((begin === 4 && count < 126) || (begin === 10 && count < 1 << 16)) {
      throw invalidAnswer("The terminal sent a frame whose length is written too long.");
    }
    if (count + (opcode < CLOSE ? this.#size : 0) > MESSAGE_BYTES) {
      throw new ConnectionError(`The terminal sent a message of more than ${MESSAGE_BYTES} bytes.`, {
        code: "answer_too_large",
        details: { sent: true },
      });
    }
    const length = begin + count;
    this.#needed = length;
    if (bytes.length < length) return null;
    this.#needed = 2;
    return { frame: { opcode, last, content: bytes.subarray(begin, length) }, length };
  }

  #take({ opcode, last, content }: Frame): Message | null {
    const kind = KINDS.get(opcode);
    if (kind && opcode >= CLOSE) return this.#control(kind, content);
    if ((opcode === MORE) !== (this.#opcode !== MORE)) {
      throw invalidAnswer("The terminal sent parts of messages out of order.");
    }
    if (opcode !== MORE) this.#opcode = opcode;
    if (content.length) this.#parts.push(content);
    this.#size += content.length;
    if (!last) return null;
    const message: Message = {
      kind: this.#opcode === TEXT ? "text" : "binary",
      data: this.#parts.length === 1 && this.#parts[0] ? this.#parts[0] : Buffer.concat(this.#parts),
    };
    this.#parts = [];
    this.#size = 0;
    this.#opcode = MORE;
    return message;
  }

  #control(kind: Message["kind"], content: Buffer): Message {
    if (kind === "close") {
      this.#over = true;
      if (content.length === 1 || (content.length && !goodCode(content.readUInt16BE(0)))) {
        throw invalidAnswer("The terminal said goodbye with a code that there is not.");
      }
    }
    return { kind, data: content };
  }
}
