// SPDX-License-Identifier: Apache-2.0 - what can go wrong, by class; all are SealmarkError.

import { isRecord, type Json } from "./json.js";
import type { CommandResult } from "./records.js";

/** 409 that passes when another sandbox ends: the capacity wait sends the same create again. */
export const CAPACITY_CODES: ReadonlySet<string> = new Set(["no_capacity", "quota_exceeded", "trial_busy"]);
/** 5xx that says no for good. */
const FINAL_CODES: ReadonlySet<string> = new Set(["unavailable", "unsupported"]);

export interface ErrorFields {
  code?: string;
  status?: number;
  hint?: string | null;
  details?: Json;
  requestId?: string | null;
  retryable?: boolean;
  retryAfterMs?: number | null;
  cause?: unknown;
}

/** Base of all errors of this package. */
export class SealmarkError extends Error {
  /** What went wrong, for programs: "not_found", "quota_exceeded", ... */
  readonly code: string;
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** What to do about it. */
  readonly hint: string | null;
  /** More of it, for programs; `details.issues` names every wrong field. */
  readonly details: Json;
  /** The server's name of the request, for its operator's log. */
  readonly requestId: string | null;
  /** Whether the same call may work later without any other change. */
  readonly retryable: boolean;
  /** When to try again, in milliseconds, if the server said so. */
  readonly retryAfterMs: number | null;

  constructor(message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code ?? "error";
    this.status = fields.status ?? 0;
    this.hint = fields.hint ?? null;
    this.details = fields.details ?? {};
    this.requestId = fields.requestId ?? null;
    this.retryable = fields.retryable ?? false;
    this.retryAfterMs = fields.retryAfterMs ?? null;
  }

  /** The wrong fields of a request. */
  get issues(): { path?: unknown; message?: unknown }[] {
    const found = this.details["issues"];
    return Array.isArray(found) ? found.filter(isRecord) : [];
  }
}

/** No key, or one that the server does not know (401). */
export class AuthenticationError extends SealmarkError {}
/** The key, its limits, or the rights inside the sandbox do not allow it (402, 403). */
export class PermissionDeniedError extends SealmarkError {}
/** No such sandbox, file, image or route (404). */
export class NotFoundError extends SealmarkError {}
/** The state of things does not allow it now (409). */
export class ConflictError extends SealmarkError {}
/** The request is wrong as it stands (400, 405, 413, 422). */
export class InvalidRequestError extends SealmarkError {}
/** Too many requests (429), also after trying again. */
export class RateLimitError extends SealmarkError {}
/** The server cannot do it, now or (code `unavailable`) at all (5xx). */
export class ServiceUnavailableError extends SealmarkError {}
/** No answer, one that came too late or broke off, or one that is not of this API. */
export class ConnectionError extends SealmarkError {}
/** A folder or an archive that cannot be copied without leaving its place. */
export class ArchiveError extends SealmarkError {}
/** An image could not be built; `details.image` is its record. */
export class BuildError extends SealmarkError {}

/** A command failed or timed out under `check: true`; `result` has all of it. */
export class CommandError extends SealmarkError {
  readonly result: CommandResult;

  constructor(result: CommandResult) {
    const [code, message] = result.timedOut
      ? ["command_timeout", "The command took longer than it may."]
      : result.exitCode === null
        ? ["command_killed", "The command was killed."]
        : ["command_failed", `The command ended with ${result.exitCode}.`];
    const last = result.stderr.trim().split("\n").at(-1)?.slice(0, 500);
    super(message, { code, hint: last || null });
    this.result = result;
  }

  get exitCode(): number | null {
    return this.result.exitCode;
  }
  get timedOut(): boolean {
    return this.result.timedOut;
  }
  get stdout(): string {
    return this.result.stdout;
  }
  get stderr(): string {
    return this.result.stderr;
  }
}

type ErrorClass = new (message: string, fields?: ErrorFields) => SealmarkError;

const CLASSES: ReadonlyMap<number, ErrorClass> = new Map<number, ErrorClass>([
  [401, AuthenticationError],
  [402, PermissionDeniedError],
  [403, PermissionDeniedError],
  [404, NotFoundError],
  [409, ConflictError],
  [429, RateLimitError],
]);

function classOf(status: number): ErrorClass {
  if (status >= 500) return ServiceUnavailableError;
  if (status < 400) return ConnectionError;
  return CLASSES.get(status) ?? InvalidRequestError;
}

const textOr = (value: unknown): string | null => (typeof value === "string" && value ? value : null);

function retryAfter(error: Json, headers: Headers | undefined): number | null {
  const named = error["retryAfterMs"];
  if (typeof named === "number" && Number.isInteger(named) && named >= 0) return named;
  const header = headers?.get("retry-after") ?? "";
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000;
  const date = header ? Date.parse(header) : NaN;
  return Number.isNaN(date) ? null : Math.max(0, date - Date.now());
}

/** From the error object of an answer or of a stream, whatever it holds. */
export function errorOf(error: unknown, status: number, headers?: Headers): SealmarkError {
  const fields = isRecord(error) ? error : {};
  const own = fields["status"];
  if (!status && typeof own === "number" && own >= 400 && own <= 599) status = own;
  const code = textOr(fields["code"]) ?? (status >= 400 ? "request_failed" : "invalid_answer");
  const retryAfterMs = retryAfter(fields, headers);
  const details = fields["details"];
  return new (classOf(status || 500))(
    textOr(fields["message"]) ?? `The server answered with status ${status}.`,
    {
      code,
      status,
      hint: textOr(fields["hint"]),
      details: isRecord(details) ? details : {},
      requestId: textOr(fields["requestId"]) ?? textOr(headers?.get("x-request-id")),
      retryable:
        !FINAL_CODES.has(code) &&
        (retryAfterMs !== null || [429, 502, 503, 504].includes(status) || CAPACITY_CODES.has(code)),
      retryAfterMs,
    },
  );
}

/** From an answer that is no success. What is not of this API (a proxy's page) is one too. */
export function errorOfAnswer(status: number, headers: Headers, body: Uint8Array): SealmarkError {
  let parsed: unknown = null;
  try {
    parsed = JSON.parse(new TextDecoder().decode(body));
  } catch {
    // not of this API: its status says what there is to say
  }
  return errorOf(isRecord(parsed) ? parsed["error"] : null, status, headers);
}

/** The server answered, but not as the API says. */
export function invalidAnswer(what: string): ConnectionError {
  return new ConnectionError(what, {
    code: "invalid_answer",
    hint: "Is the address that of a Sealmark server, of a version that fits?",
  });
}

export function invalidRequest(what: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError(what, { code: "invalid_request", hint: hint ?? null });
}
