// SPDX-License-Identifier: Apache-2.0 - requests before they are sent, and when to send them again.

import { randomUUID } from "node:crypto";

import { invalidAnswer, invalidRequest, type SealmarkError } from "./errors.js";
import { given, isRecord, type Json } from "./json.js";
import { VERSION } from "./version.js";

// A change bears an Idempotency-Key, made once for a call; all attempts of the call send the same
// key and the same body, so that a change whose answer was lost is not made twice.

/** The most that one request may carry of a file or an archive. */
export const PIECE_BYTES = 1 << 20;
/** A longer JSON answer is no answer. */
export const ANSWER_BYTES = 64 << 20;
/** Of a stream. */
export const LINE_BYTES = 16 << 20;
export const ERROR_BYTES = 1 << 20;

const BACKOFF_FIRST_MS = 100;
const BACKOFF_MOST_MS = 5_000;
/** A server that names a longer wait is asked again by the caller, not by us. */
const NAMED_MOST_MS = 30_000;

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/** What is asked of the server. */
export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  query?: Query;
  body?: Json;
  content?: Uint8Array;
  /** Idempotency-Key */
  key?: string;
  /** Prefer: wait, in seconds */
  waitSeconds?: number;
  /** For the whole answer, or for a stream's next piece. */
  timeoutMs?: number;
  /** timeoutMs is for all the waits for a stream's pieces together. */
  ends?: boolean;
  accept?: string;
  /** A second attempt could do it twice. */
  once?: boolean;
  signal?: AbortSignal | undefined;
}

/** Path and query. */
export function target(request: Request): string {
  const pairs: string[] = [];
  const add = (name: string, value: string) =>
    pairs.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value === undefined) continue;
    if (typeof value === "object") value.forEach((entry) => add(name, entry));
    else add(name, String(value));
  }
  return request.path + (pairs.length ? `?${pairs.join("&")}` : "");
}

export function payload(request: Request): Uint8Array | string | undefined {
  if (request.content || !request.body) return request.content;
  try {
    return JSON.stringify(request.body);
  } catch (error) {
    throw invalidRequest(`The request cannot be written as JSON: ${String(error)}`);
  }
}

export function headers(request: Request, authorization: string): Record<string, string> {
  const out: Record<string, string> = {
    Authorization: authorization,
    Accept: request.accept ?? "application/json",
    // what is not packed cannot unpack to more than its limit
    "Accept-Encoding": "identity",
    "User-Agent": `sealmark-typescript/${VERSION}`,
  };
  if (request.content) out["Content-Type"] = "application/octet-stream";
  else if (request.body) out["Content-Type"] = "application/json";
  if (request.key !== undefined) out["Idempotency-Key"] = request.key;
  if (request.waitSeconds !== undefined) out["Prefer"] = `wait=${request.waitSeconds}`;
  return out;
}

/** A request that changes something, with a key of its own unless it has one. */
export function change(
  method: "POST" | "PUT" | "DELETE",
  path: string,
  fields: Omit<Request, "method" | "path" | "key"> & { key?: string | undefined } = {},
): Request {
  const { key = randomUUID(), ...rest } = fields;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/.test(key)) {
    throw invalidRequest(
      "An idempotency key is 1 to 128 letters, digits, and _.:- after the first.",
    );
  }
  return { method, path, key, ...rest };
}

/** An id as a part of a path: it can name no other route. */
export function segment(value: string): string {
  if (typeof value !== "string" || ["", ".", ".."].includes(value)) {
    throw invalidRequest(`${JSON.stringify(value)} is no id.`);
  }
  return encodeURIComponent(value);
}

export type Data = string | Uint8Array | ArrayBuffer | ArrayBufferView;

/** What is written: text as UTF-8, or the bytes below whatever view there is of them. */
export function dataBytes(data: Data): Uint8Array {
  if (typeof data === "string") return new TextEncoder().encode(data);
  if (data instanceof Uint8Array) return data;
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw invalidRequest("data is a text or bytes.");
}

/** 0o755 as the API writes it. */
export function modeText(mode: number | undefined): string | undefined {
  if (mode === undefined) return undefined;
  if (!Number.isInteger(mode) || mode < 0 || mode > 0o7777) {
    throw invalidRequest("mode is a number from 0 to 0o7777.");
  }
  return mode.toString(8).padStart(3, "0");
}

export interface CommandOptions {
  /** Where; by default the image's folder, `/workspace`. */
  cwd?: string | undefined;
  /** More variables. */
  env?: Record<string, string> | undefined;
  /** Its whole input; without it there is none. */
  stdin?: Data | undefined;
  /** How long it may take; 60,000 by default, or what is left of the lease if that is less. */
  timeoutMs?: number | undefined;
  /** "root" for root's rights; by default the sandbox's user. */
  user?: "sandbox" | "root" | undefined;
}

/** A text is run by bash, a list is a program and its arguments. */
export function commandBody(command: string | readonly string[], options: CommandOptions): Json {
  const { cwd, env, stdin, timeoutMs, user } = options;
  return given({
    command: typeof command === "string" ? command : undefined,
    argv: typeof command === "string" ? undefined : [...command],
    cwd,
    env,
    stdin: typeof stdin === "string" ? stdin : undefined,
    stdinBase64:
      stdin === undefined || typeof stdin === "string"
        ? undefined
        : Buffer.from(dataBytes(stdin)).toString("base64"),
    timeoutMs,
    user,
  });
}

/** What is left of the lease when a timeout nobody asked for is too long. */
export function shorterTimeout(error: SealmarkError): number | null {
  const left = error.details["leaseSecondsLeft"];
  if (error.code !== "lease_too_short" || typeof left !== "number" || !(left >= 1)) return null;
  return Math.floor(left) * 1000 - Math.min(500, Math.floor(left) * 100);
}

/** The object that an answer is. */
export function parseJson(body: Uint8Array | string): Json {
  let value: unknown;
  try {
    value = JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  } catch {
    throw invalidAnswer("The answer is no JSON.");
  }
  if (!isRecord(value)) throw invalidAnswer("The answer is no JSON object.");
  return value;
}

/** Cuts a stream of JSON lines into objects. */
export class Lines {
  #parts: Uint8Array[] = [];
  #count = 0;

  feed(piece: Uint8Array): Json[] {
    const out: Json[] = [];
    let begin = 0;
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, begin)) {
      this.#parts.push(piece.subarray(begin, end));
      begin = end + 1;
      out.push(...this.finish());
    }
    this.#parts.push(piece.subarray(begin));
    this.#count += piece.length - begin;
    if (this.#count > LINE_BYTES) {
      throw invalidAnswer("A line of the stream is longer than any that the API sends.");
    }
    return out;
  }

  /** What follows the last line end, if it is whole. */
  finish(): Json[] {
    const line = Buffer.concat(this.#parts).toString().trim();
    this.#parts = [];
    this.#count = 0;
    return line ? [parseJson(line)] : [];
  }
}

/**
 * Milliseconds until the same request is sent again; null when it is not. A request that may be
 * done twice is sent again only when the server says that nothing was done, or could not be
 * reached at all (`details.sent` is false).
 */
export function retryDelay(
  request: Request,
  error: SealmarkError,
  attempt: number,
  maxRetries: number,
  jitter: () => number = Math.random,
): number | null {
  if (attempt >= maxRetries || !error.retryable || error.status === 409) return null;
  const refused = [429, 503].includes(error.status) || error.details["sent"] === false;
  if (request.once && !refused) return null;
  return pause(error, attempt, jitter);
}

/** How long to wait before attempt + 1; null: longer than is sensible here. */
export function pause(
  error: SealmarkError | null,
  attempt: number,
  jitter: () => number = Math.random,
): number | null {
  const named = error?.retryAfterMs ?? null;
  if (named !== null) {
    // never before the time named; not all of those who wait at the same instant
    return named > NAMED_MOST_MS ? null : named + jitter() * Math.min(1000, named / 4);
  }
  const backoff = Math.min(BACKOFF_MOST_MS, BACKOFF_FIRST_MS * 2 ** Math.min(attempt, 16));
  return backoff * (0.5 + 0.5 * jitter());
}

/** How long to wait for room; the time named, but not past the end of the wait. */
export function capacityDelay(
  error: SealmarkError,
  attempt: number,
  leftMs: number,
  jitter: () => number = Math.random,
): number {
  return Math.min(leftMs, pause(error, attempt, jitter) ?? error.retryAfterMs ?? 0);
}
