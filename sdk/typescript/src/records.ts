// SPDX-License-Identifier: Apache-2.0 - what the server answers, in types; nothing is taken unchecked.

import { errorOf, invalidAnswer } from "./errors.js";
import { isRecord, type Json } from "./json.js";

/** What is kept of each stream of a command that is followed; callbacks see all of it. */
export const KEPT_BYTES = 16 << 20;

export function record(value: unknown, what: string): Json {
  if (!isRecord(value)) throw invalidAnswer(`${what} is no object.`);
  return value;
}

export function records(value: unknown, what: string): Json[] {
  if (!Array.isArray(value)) throw invalidAnswer(`${what} is no list.`);
  return value.map((entry: unknown) => record(entry, `An entry of ${what}`));
}

function wrong(name: string): Error {
  return invalidAnswer(`The field ${name} is missing or of another kind than it should be.`);
}

export function text(fields: Json, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") throw wrong(name);
  return value;
}

export function integer(fields: Json, name: string): number {
  const value = fields[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw wrong(name);
  return value;
}

/** Money, a number or decimal text. */
export function micros(fields: Json, name: string): number {
  const value = fields[name];
  return typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : integer(fields, name);
}

export function boolean(fields: Json, name: string, otherwise = false): boolean {
  const value = fields[name] === undefined ? otherwise : fields[name];
  if (typeof value !== "boolean") throw wrong(name);
  return value;
}

const absent = (value: unknown): value is null | undefined => value === null || value === undefined;

export function optionalText(fields: Json, name: string): string | null {
  return absent(fields[name]) ? null : text(fields, name);
}

export function optionalInteger(fields: Json, name: string): number | null {
  return absent(fields[name]) ? null : integer(fields, name);
}

function optionalRecord(fields: Json, name: string): Json | null {
  return absent(fields[name]) ? null : record(fields[name], name);
}

/** How a command ended. A timeout and a failure are results, not errors. */
export interface CommandResult {
  /** Of the program; null when it was killed or timed out. */
  exitCode: number | null;
  timedOut: boolean;
  /** As text; bytes that are no UTF-8 become U+FFFD. */
  stdout: string;
  stderr: string;
  /** Whether some of it is missing there. */
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  durationMs: number | null;
  processId: string | null;
  /** Whether this is the kept answer to an earlier call with the same key. */
  replayed: boolean;
  /** What the kernel's memory killer did to it. */
  outOfMemory: Json | null;
}

export function commandResult(answer: unknown): CommandResult {
  const fields = record(answer, "The result of the command");
  return {
    exitCode: optionalInteger(fields, "exitCode"),
    timedOut: boolean(fields, "timedOut"),
    stdout: text(fields, "stdout"),
    stderr: text(fields, "stderr"),
    stdoutTruncated: boolean(fields, "stdoutTruncated"),
    stderrTruncated: boolean(fields, "stderrTruncated"),
    durationMs: optionalInteger(fields, "durationMs"),
    processId: optionalText(fields, "processId"),
    replayed: boolean(fields, "replayed"),
    outOfMemory: optionalRecord(fields, "outOfMemory"),
  };
}

/** A file, folder or link in a sandbox; `mode` is octal text ("755"), `size` is in bytes. */
export interface FileEntry {
  name: string;
  path: string;
  type: string;
  size: number;
  mode: string;
  modifiedAt: string | null;
  uid: number | null;
  gid: number | null;
  owner: string | null;
  group: string | null;
  symlinkTarget: string | null;
}

export function fileEntry(answer: unknown): FileEntry {
  const fields = record(answer, "The entry");
  return {
    name: text(fields, "name"),
    path: text(fields, "path"),
    type: text(fields, "type"),
    size: integer(fields, "size"),
    mode: text(fields, "mode"),
    modifiedAt: optionalText(fields, "modifiedAt"),
    uid: optionalInteger(fields, "uid"),
    gid: optionalInteger(fields, "gid"),
    owner: optionalText(fields, "owner"),
    group: optionalText(fields, "group"),
    symlinkTarget: optionalText(fields, "symlinkTarget"),
  };
}

/** A change in a folder that is watched; `oldPath` is what was renamed to `path`. */
export interface FileEvent {
  /** create, write, remove, rename or chmod. */
  type: string;
  path: string;
  isDir: boolean;
  oldPath: string | null;
}

export function fileEvent(answer: Json): FileEvent {
  return {
    type: text(answer, "type"),
    path: text(answer, "path"),
    isDir: boolean(answer, "isDir"),
    oldPath: optionalText(answer, "oldPath"),
  };
}

/** A version of an image; `info` is its whole record. */
export interface Image {
  id: string;
  name: string | null;
  /** Counts the successful builds of the name; null for what has none. */
  version: number | null;
  /** queued, building, ready, failed or deleted. */
  state: string;
  tags: string[];
  error: string | null;
  info: Json;
}

export function image(answer: unknown): Image {
  const fields = record(answer, "The image");
  const tags: unknown = fields["tags"] ?? [];
  if (!Array.isArray(tags)) throw wrong("tags");
  const named = tags.map((tag: unknown) => {
    if (typeof tag !== "string") throw wrong("tags");
    return tag;
  });
  const { version, error } = fields;
  return {
    id: text(fields, "id"),
    name: optionalText(fields, "name"),
    version:
      typeof version === "string" && /^\d{1,15}$/.test(version)
        ? Number(version)
        : typeof version === "number"
          ? version
          : null,
    state: text(fields, "state"),
    tags: named,
    error: absent(error) ? null : typeof error === "string" ? error : JSON.stringify(error),
    info: fields,
  };
}

/** A line of an image's build: `seq` counts them, `text` has no line end. */
export interface LogLine {
  seq: number;
  text: string;
  stream: string | null;
  info: Json;
}

export function logLine(fields: Json): LogLine {
  const line = fields["text"] ?? fields["line"] ?? fields["message"];
  return {
    seq: integer(fields, "seq"),
    text: typeof line === "string" ? line : "",
    stream: optionalText(fields, "stream"),
    info: fields,
  };
}

// --- events of a command -----------------------------------------------------------------------

/** The command runs; `processId` names it. */
export interface Started {
  type: "start";
  processId: string;
}

/** A piece of output: as text, as the bytes themselves, and where it begins in all output. */
export interface Output {
  type: "stdout" | "stderr";
  data: string;
  raw: Uint8Array;
  offset: number;
}

/** `droppedBytes` of output are missing before `resumeAt`. */
export interface Truncated {
  type: "truncated";
  droppedBytes: number;
  resumeAt: number;
}

/** The command has ended; the last event. */
export interface Exited {
  type: "exit";
  exitCode: number | null;
  state: string | null;
  timedOut: boolean;
  durationMs: number | null;
  processId: string | null;
  outOfMemory: Json | null;
}

/** The stream ends here; the command goes on, and is read further from `cursor`. */
export interface Continues {
  type: "continue";
  processId: string | null;
  cursor: number;
}

export type CommandEvent = Started | Output | Truncated | Exited;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function output(type: "stdout" | "stderr", fields: Json): Output {
  const given = text(fields, "data");
  const encoded = optionalText(fields, "base64");
  if (encoded !== null && !/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) {
    throw invalidAnswer("A piece of output is no base64.");
  }
  const raw = encoded === null ? encoder.encode(given) : new Uint8Array(Buffer.from(encoded, "base64"));
  // without halves of letters, which no file takes
  const data = encoded === null ? decoder.decode(raw) : given;
  return { type, data, raw, offset: integer(fields, "offset") };
}

/** One event of a stream; null for a kind that this version does not know. Throws errors. */
export function commandEvent(fields: Json): CommandEvent | Continues | null {
  const type = text(fields, "type");
  switch (type) {
    case "start":
      return { type, processId: text(fields, "processId") };
    case "stdout":
    case "stderr":
      return output(type, fields);
    case "truncated":
      return { type, droppedBytes: integer(fields, "droppedBytes"), resumeAt: integer(fields, "resumeAt") };
    case "exit":
      return {
        type,
        exitCode: optionalInteger(fields, "exitCode"),
        state: optionalText(fields, "state"),
        timedOut: boolean(fields, "timedOut"),
        durationMs: optionalInteger(fields, "durationMs"),
        processId: optionalText(fields, "processId"),
        outOfMemory: optionalRecord(fields, "outOfMemory"),
      };
    case "continue":
      return { type, processId: optionalText(fields, "processId"), cursor: integer(fields, "cursor") };
    case "error":
      throw errorOf(fields["error"], 0);
    default:
      return null;
  }
}

/**
 * Where the reader of a command's output is, in bytes of both streams together. A stream that is
 * read again from the cursor may send some of it twice, or no longer have all of it: the one is
 * cut off, the other becomes a `truncated`.
 */
export class OutputReader {
  constructor(public cursor = 0) {}

  take(event: CommandEvent): CommandEvent[] {
    if (event.type === "truncated") this.cursor = Math.max(this.cursor, event.resumeAt);
    if (event.type !== "stdout" && event.type !== "stderr") return [event];
    const out: CommandEvent[] = [];
    const end = event.offset + event.raw.length;
    if (event.offset > this.cursor) {
      out.push({ type: "truncated", droppedBytes: event.offset - this.cursor, resumeAt: event.offset });
    } else if (event.offset < this.cursor) {
      const raw = event.raw.subarray(this.cursor - event.offset);
      event = { type: event.type, data: decoder.decode(raw), raw, offset: this.cursor };
    }
    if (event.raw.length) out.push(event);
    this.cursor = Math.max(this.cursor, end);
    return out;
  }
}

/** Makes a result of the events of a command. */
export class Collector {
  end: Exited | null = null;
  readonly #parts = { stdout: [] as string[], stderr: [] as string[] };
  readonly #room = { stdout: KEPT_BYTES, stderr: KEPT_BYTES };
  readonly #cut = { stdout: false, stderr: false };

  constructor(public processId: string | null = null) {}

  take(event: CommandEvent): void {
    switch (event.type) {
      case "start":
        this.processId = event.processId;
        break;
      case "stdout":
      case "stderr":
        this.#keep(event);
        break;
      case "truncated":
        // it does not say which of the two has lost something
        this.#cut.stdout = this.#cut.stderr = true;
        break;
      case "exit":
        this.end = event;
        break;
    }
  }

  #keep(event: Output): void {
    const room = this.#room[event.type];
    const fits = event.raw.length <= room;
    if (!fits) this.#cut[event.type] = true;
    const kept = fits ? event.data : new TextDecoder().decode(event.raw.subarray(0, room), { stream: true });
    if (kept) this.#parts[event.type].push(kept);
    this.#room[event.type] = fits ? room - event.raw.length : 0;
  }

  result(): CommandResult {
    if (!this.end) throw invalidAnswer("The stream of the command has no end.");
    return {
      exitCode: this.end.exitCode,
      timedOut: this.end.timedOut,
      stdout: this.#parts.stdout.join(""),
      stderr: this.#parts.stderr.join(""),
      stdoutTruncated: this.#cut.stdout,
      stderrTruncated: this.#cut.stderr,
      durationMs: this.end.durationMs,
      processId: this.end.processId ?? this.processId,
      replayed: false,
      outOfMemory: this.end.outOfMemory,
    };
  }
}
