// SPDX-License-Identifier: Apache-2.0 - a WebSocket on a connection that the server has handed over.

import type { Duplex } from "node:stream";
import { setTimeout as after } from "node:timers/promises";

import { ConnectionError, type SealmarkError } from "./errors.js";
import { frame, Frames, goodbye, type Message, type Messages, PONG } from "./frames.js";

/** A server that is there sends a ping every half minute. */
const SILENCE_MS = 180_000;
/** How long the other side may take to say goodbye too. */
const GOODBYE_MS = 5_000;
/** Beyond it pings are not answered: who sends so many does not read. */
const BACKLOG_BYTES = 1 << 20;

/** Messages in and out. A ping is answered as soon as it is read; nothing is read ahead. */
export class MessageSocket implements Messages {
  closed = false;
  readonly #socket: Duplex;
  readonly #timeoutMs: number;
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #frames = new Frames();
  readonly #messages: Message[] = [];
  #reading: Promise<void> | null = null;
  #failure: SealmarkError | null = null;
  /** The other side has said goodbye, or is gone. */
  #parted = false;

  constructor(socket: Duplex, head: Uint8Array, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on("error", () => undefined); // whoever reads or writes is told
    if (head.length) socket.unshift(head);
    this.#source = socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  }

  /**
   * The next text, piece of bytes or goodbye; null when there is nothing more to come. Throws
   * ConnectionError: `timeout` after so long, and it can be read further. Without a time it waits as
   * long as there is a sign of life.
   */
  async receive(timeoutMs: number | null): Promise<Message | null> {
    const deadline = timeoutMs === null ? null : performance.now() + timeoutMs;
    while (!this.closed) {
      const message = this.#messages.shift();
      if (message) return message;
      if (this.#failure) throw this.#failure;
      if (this.#parted) return null;
      const left = deadline === null ? SILENCE_MS : Math.max(0, deadline - performance.now());
      if (!(await within(left, this.#more()))) throw tooLate(timeoutMs ?? SILENCE_MS);
    }
    return null;
  }

  /** Reads once, whoever waits for it. */
  #more(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #read(): Promise<void> {
    try {
      const { done, value } = await this.#source.next();
      if (done) {
        this.#parted = true;
        return;
      }
      for (const message of this.#frames.feed(value)) {
        if (message.kind === "ping") this.#pong(message.data);
        else if (message.kind !== "pong") this.#messages.push(message);
        if (message.kind === "close") this.#parted = true;
      }
    } catch (error) {
      this.#parted = true;
      this.#failure = error instanceof ConnectionError ? error : brokenOff(error);
    }
  }

  #pong(data: Uint8Array): void {
    if (!this.closed && this.#socket.writableLength < BACKLOG_BYTES) this.#socket.write(frame(PONG, data));
  }

  /** One message, and the wait until it has left. Throws ConnectionError. */
  async send(opcode: number, data: Uint8Array): Promise<void> {
    if (this.closed) throw new ConnectionError("The terminal is closed.", { code: "closed" });
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(tooLate(this.#timeoutMs)), Math.min(this.#timeoutMs, 2 ** 31 - 1));
      this.#socket.write(frame(opcode, data), (error) => {
        clearTimeout(timer);
        if (error) reject(brokenOff(error));
        else resolve();
      });
    });
  }

  /** Says goodbye, waits a little for the other side to, and closes the connection. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    const timer = new AbortController();
    const late = after(GOODBYE_MS, undefined, { signal: timer.signal }).catch(() => undefined);
    if (!this.#socket.writableEnded) this.#socket.write(goodbye(), () => undefined);
    await Promise.race([this.#untilParted(), late]);
    timer.abort();
    this.#socket.destroy();
  }

  async #untilParted(): Promise<void> {
    while (!this.#parted) {
      this.#messages.length = 0; // nobody wants it any more
      await this.#more();
    }
  }
}

/** Whether it is done in that time. */
async function within(ms: number, work: Promise<void>): Promise<boolean> {
  const timer = new AbortController();
  const late = after(ms, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

function tooLate(ms: number): ConnectionError {
  return new ConnectionError(`The terminal was silent for ${ms} milliseconds.`, {
    code: "timeout",
    details: { sent: true },
  });
}

function brokenOff(error: unknown): ConnectionError {
  return new ConnectionError("The connection of the terminal broke off.", {
    code: "connection_error",
    details: { sent: true },
    cause: error,
  });
}
