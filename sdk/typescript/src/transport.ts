// SPDX-License-Identifier: Apache-2.0 - sends requests, again where that is safe; reads within limits.

import { CAPACITY_CODES, ConnectionError, errorOfAnswer, SealmarkError } from "./errors.js";
import { Handshake, type Messages } from "./frames.js";
import { isRecord, type Json } from "./json.js";
import {
  ANSWER_BYTES,
  capacityDelay,
  ERROR_BYTES,
  headers,
  Lines,
  parseJson,
  payload,
  type Request,
  retryDelay,
  target,
} from "./protocol.js";
import type { Settings } from "./settings.js";
import { socketFetch, socketUpgrade } from "./socket.js";
import { sleep } from "./wait.js";
import { MessageSocket } from "./websocket.js";

/** The global fetch gives up on silence after five minutes. */
const FETCH_SILENCE_MS = 240_000;
/** Errors of a request that never left. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "ENOENT",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

function codeOf(error: unknown): unknown {
  for (let depth = 0; depth < 4 && isRecord(error); depth++) {
    if (typeof error["code"] === "string") return error["code"];
    error = error["cause"];
  }
  return undefined;
}

/** Why it failed, as far down as it is said. */
function reasonOf(error: unknown): string {
  let reason = "closed";
  for (let depth = 0; depth < 4 && error instanceof Error; depth++) {
    reason = error.message || reason;
    error = error.cause;
  }
  return reason;
}

/** Aborts when the caller does, or when it takes too long; says which of the two it was. */
class Limit {
  readonly controller = new AbortController();
  late = false;
  #timer: NodeJS.Timeout | undefined;
  #left = 0;
  #since = 0;
  readonly #abort = () => this.controller.abort(this.caller?.reason);

  constructor(
    readonly ms: number,
    readonly caller: AbortSignal | undefined,
  ) {
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.#abort, { once: true });
    this.restart();
  }

  restart(): void {
    this.#left = this.ms;
    this.goOn();
  }

  /** With what is left of the time. */
  goOn(): void {
    clearTimeout(this.#timer);
    this.#since = performance.now();
    const fire = () => {
      this.late = true;
      this.controller.abort();
    };
    this.#timer = setTimeout(fire, Math.min(Math.max(this.#left, 0), 2 ** 31 - 1));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#since;
  }

  end(): void {
    this.stop();
    this.caller?.removeEventListener("abort", this.#abort);
  }
}

interface Opened {
  response: Response;
  limit: Limit;
}

/** One server and one key. */
export class Transport {
  constructor(readonly settings: Settings) {}

  /** The object that the server answers. */
  json(request: Request): Promise<Json> {
    return this.#again(request, async () => parseJson(await this.#whole(request, ANSWER_BYTES)));
  }

  /** A body of at most `most` bytes. */
  content(request: Request, most: number): Promise<Uint8Array> {
    return this.#again(request, () => this.#whole(request, most));
  }

  /** A body of any length, as it comes; sent again only until it begins. */
  async *pieces(request: Request): AsyncGenerator<Uint8Array, void, undefined> {
    const opened = await this.#again(request, () => this.#open(request));
    yield* this.#body(opened, request.ends ? "waits" : "silence");
  }

  /** The objects of a stream of JSON lines, as they come. */
  async *lines(request: Request): AsyncGenerator<Json, void, undefined> {
    const lines = new Lines();
    for await (const piece of this.pieces(request)) yield* lines.feed(piece);
    yield* lines.finish();
  }

  /** The same as json, and while there is no room it asks again until there is. */
  async create(request: Request, waitMs: number | undefined): Promise<Json> {
    const deadline = performance.now() + (waitMs ?? this.settings.waitForCapacityMs);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.json(request);
      } catch (error) {
        const left = deadline - performance.now();
        if (!(error instanceof SealmarkError) || !CAPACITY_CODES.has(error.code) || left <= 0) throw error;
        await sleep(capacityDelay(error, attempt, left), request.signal);
      }
    }
  }

  /** A WebSocket; sent again only if the server refused it, or was not reached. */
  socket(request: Request): Promise<Messages> {
    return this.#again(request, async () => {
      const { baseUrl, socketPath, timeoutMs } = this.settings;
      const handshake = new Handshake();
      const limit = new Limit(request.timeoutMs ?? timeoutMs, request.signal);
      try {
        const opened = await socketUpgrade(baseUrl + target(request), socketPath, {
          method: request.method,
          headers: { ...headers(request, this.settings.authorization()), ...handshake.headers() },
          body: undefined,
          signal: limit.controller.signal,
        });
        if (opened instanceof Response) {
          const body = await this.#read({ response: opened, limit }, ERROR_BYTES);
          throw errorOfAnswer(opened.status, opened.headers, body);
        }
        const socket = new MessageSocket(opened.socket, opened.head, timeoutMs);
        try {
          handshake.check(opened.headers);
        } catch (error) {
          opened.socket.destroy();
          throw error;
        }
        return socket;
      } catch (error) {
        throw error instanceof SealmarkError ? error : this.#failure(error, limit);
      } finally {
        limit.end();
      }
    });
  }

  /** Sends it until it is answered or must not be sent again. */
  async #again<T>(request: Request, once: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await once();
      } catch (error) {
        const delay =
          error instanceof SealmarkError
            ? retryDelay(request, error, attempt, this.settings.maxRetries)
            : null;
        if (delay === null) throw error;
        await sleep(delay, request.signal);
      }
    }
  }

  /** Sends it once; an answer that is an error is thrown. */
  async #open(request: Request): Promise<Opened> {
    const limit = new Limit(request.timeoutMs ?? this.settings.timeoutMs, request.signal);
    let opened: Opened;
    try {
      opened = { response: await this.#send(request, limit), limit };
    } catch (error) {
      limit.end();
      throw error instanceof SealmarkError ? error : this.#failure(error, limit);
    }
    const { status, headers: received } = opened.response;
    if (status >= 200 && status < 300) return opened;
    throw errorOfAnswer(status, received, await this.#read(opened, ERROR_BYTES));
  }

  #send(request: Request, limit: Limit): Promise<Response> {
    const url = this.settings.baseUrl + target(request);
    const signal = limit.controller.signal;
    const fields = {
      method: request.method,
      headers: headers(request, this.settings.authorization()),
      body: payload(request),
      signal,
    };
    const own = this.settings.fetch;
    if (!own && (this.settings.socketPath !== null || limit.ms > FETCH_SILENCE_MS)) {
      return socketFetch(url, this.settings.socketPath, fields);
    }
    const { body, ...rest } = fields;
    return (own ?? fetch)(url, {
      ...rest,
      redirect: "manual", // the key goes to this server and to no other
      ...(body === undefined ? {} : { body }),
    });
  }

  async #whole(request: Request, most: number): Promise<Uint8Array> {
    return this.#read(await this.#open(request), most);
  }

  /** The whole body, within the time of the whole answer. */
  async #read(opened: Opened, most: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let count = 0;
    for await (const piece of this.#body(opened, "whole")) {
      count += piece.length;
      if (count > most) {
        throw new ConnectionError(`The answer is longer than ${most} bytes.`, {
          code: "answer_too_large",
          details: { sent: true },
        });
      }
      parts.push(piece);
    }
    return Buffer.concat(parts);
  }

  /** The pieces of a body; the limit is for the whole, for all waits together, or for each wait. */
  async *#body(
    { response, limit }: Opened,
    limited: "whole" | "waits" | "silence",
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = response.body?.getReader();
    try {
      while (reader) {
        const { done, value } = await reader.read();
        if (done) return;
        // a reader that takes its time is not a server that is silent
        if (limited !== "whole") limit.stop();
        yield value;
        if (limited === "waits") limit.goOn();
        if (limited === "silence") limit.restart();
      }
    } catch (error) {
      throw error instanceof SealmarkError ? error : this.#failure(error, limit);
    } finally {
      limit.end();
      reader?.cancel().catch(() => undefined);
    }
  }

  /** What the caller sees of an error of the connection. */
  #failure(error: unknown, limit: Limit): unknown {
    if (limit.caller?.aborted) return limit.caller.reason;
    const code = codeOf(error);
    const where = this.settings.socketPath ?? this.settings.baseUrl;
    const sent = !NOT_SENT.has(code);
    const what = sent ? "broke off the connection before its answer was whole" : "could not be reached";
    return new ConnectionError(
      limit.late
        ? `The server at ${where} has not answered in ${limit.ms} milliseconds.`
        : `The server at ${where} ${what} (${String(code ?? reasonOf(error))}).`,
      {
        code: limit.late ? "timeout" : "connection_error",
        hint: "Does it run, and is this its address (SEALMARK_API_URL)?",
        details: { sent },
        retryable: true,
        cause: error,
      },
    );
  }
}
