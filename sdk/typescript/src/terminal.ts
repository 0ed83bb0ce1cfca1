// SPDX-License-Identifier: Apache-2.0 - a terminal of a sandbox, over a WebSocket.

import { ConnectionError, errorOf, invalidAnswer, invalidRequest } from "./errors.js";
import { BINARY, type Messages, TEXT } from "./frames.js";
import type { Json } from "./json.js";
import { type Data, dataBytes, parseJson, segment } from "./protocol.js";
import { optionalInteger, optionalText, text } from "./records.js";
import type { Transport } from "./transport.js";

const WRITE_BYTES = 65_536;
const SIZE_MOST = 4096;
const COLS = 80;
const ROWS = 24;

export interface TerminalOptions {
  /** Its width in letters: 80. */
  cols?: number | undefined;
  /** Its height in lines: 24. */
  rows?: number | undefined;
  /** Instead of a login shell, run by bash. */
  command?: string | undefined;
  /** Where; by default the image's folder, `/workspace`. */
  cwd?: string | undefined;
  /** "root" for root's rights; by default the sandbox's user. */
  user?: "sandbox" | "root" | undefined;
  /**
   * A process that has a terminal (`spawn` with `pty`, or one that was cut off), instead of a new
   * one; then the size is set only if it is given.
   */
  processId?: string | undefined;
  /** Gives up opening it. */
  signal?: AbortSignal | undefined;
}

function checkSize(cols: number, rows: number): void {
  for (const [name, value] of Object.entries({ cols, rows })) {
    if (!Number.isInteger(value) || value < 1 || value > SIZE_MOST) {
      throw invalidRequest(`${name} is a number from 1 to ${SIZE_MOST}.`);
    }
  }
}

/**
 * A terminal: `write` types, `recv` or iterating reads, until its process ends.
 *
 * At the end of an `await using` block, and by `close`, the shell that was started for it is hung
 * up; a process that was there before goes on. A terminal that was cut off can be attached to again
 * with `terminal({ processId })`. What is printed while nobody reads waits on the server, 1 MiB of
 * it.
 */
export class Terminal {
  readonly sandboxId: string;
  readonly processId: string;
  /** The record of its process once that has ended. */
  info: Json | null = null;
  readonly #socket: Messages;

  /** @internal Terminals come from `sandbox.terminal`. */
  constructor(socket: Messages, sandboxId: string, processId: string) {
    this.#socket = socket;
    this.sandboxId = sandboxId;
    this.processId = processId;
  }

  /** @internal */
  static async open(transport: Transport, sandboxId: string, options: TerminalOptions): Promise<Terminal> {
    const { cols = COLS, rows = ROWS, command, cwd, user, processId, signal } = options;
    checkSize(cols, rows);
    const size = processId === undefined ? { cols, rows } : {};
    const socket = await transport.socket({
      method: "GET",
      path: `/v1/sandboxes/${segment(sandboxId)}/terminal`,
      query: { ...size, command, cwd, user, processId },
      once: true,
      signal,
    });
    try {
      const ready = await socket.receive(transport.settings.timeoutMs);
      const event: Json = ready?.kind === "text" ? parseJson(ready.data) : {};
      if (event["type"] === "error") throw errorOf(event["error"], 0);
      if (event["type"] !== "ready") throw invalidAnswer("The terminal did not begin.");
      const terminal = new Terminal(socket, sandboxId, text(event, "processId"));
      const resized = options.cols !== undefined || options.rows !== undefined;
      if (processId !== undefined && resized) await terminal.resize(cols, rows);
      return terminal;
    } catch (error) {
      await socket.close();
      throw error;
    }
  }

  /** running until its end was read; then exited, killed, timed_out or unknown. */
  get state(): string {
    return this.info ? (optionalText(this.info, "state") ?? "unknown") : "running";
  }
  /** null until its end was read, and when it was killed. */
  get exitCode(): number | null {
    return this.info ? optionalInteger(this.info, "exitCode") : null;
  }

  /** Types; a line ends with a line end. Throws ConnectionError (`closed`) at its end. */
  async write(data: Data): Promise<void> {
    const bytes = dataBytes(data);
    for (let begin = 0; begin < bytes.length; begin += WRITE_BYTES) {
      await this.#socket.send(BINARY, bytes.subarray(begin, begin + WRITE_BYTES));
    }
  }

  /** Sets its size, in letters: 1 to 4096 each. */
  async resize(cols: number, rows: number): Promise<void> {
    checkSize(cols, rows);
    await this.#socket.send(TEXT, Buffer.from(JSON.stringify({ type: "resize", cols, rows })));
  }

  /**
   * The next piece of what is printed; null once its process has ended, or after `close`. With
   * `timeoutMs`, ConnectionError (`timeout`) says that nothing came for so long; then it can be
   * read further. Throws ConnectionError when it was cut off, and what the server gives as the
   * reason when it ends the terminal.
   */
  async recv(options: { timeoutMs?: number | undefined } = {}): Promise<Uint8Array | null> {
    while (!this.info) {
      const message = await this.#socket.receive(options.timeoutMs ?? null);
      if (this.#socket.closed) return null;
      if (!message || message.kind === "close") {
        throw new ConnectionError(`The terminal of process ${this.processId} was cut off.`, {
          code: "connection_error",
          details: { processId: this.processId },
          hint: "terminal({ processId }) attaches to it again while it runs.",
        });
      }
      if (message.kind === "text") this.#take(parseJson(message.data));
      else if (message.data.length) return message.data;
    }
    return null;
  }

  #take(event: Json): void {
    const type = text(event, "type");
    if (type === "error") throw errorOf(event["error"], 0);
    if (type !== "exit") return;
    optionalInteger(event, "exitCode");
    optionalText(event, "state");
    this.info = event;
  }

  /** What is printed, until its process ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (let piece; (piece = await this.recv()); ) yield piece;
  }

  /** Hangs up, and closes the connection. May be called again, and while it is read. */
  async close(): Promise<void> {
    await this.#socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
