// SPDX-License-Identifier: Apache-2.0
// Calls of the server: JSON in, JSON out, errors by class, the session's token on every change.

/** What the server said was wrong, or that it could not be reached (code "connection"). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
    readonly requestId: string | null,
    readonly issues: { path: string; message: string }[],
  ) {
    super(message);
  }
}

export interface Session {
  signedIn: boolean;
  name?: string;
  csrf?: string;
  setup: boolean;
}

export interface Page<T> {
  data: T[];
  nextCursor: string | null;
}

let csrf = "";

/** Called when the server says that the session is over. */
let ended: () => void = () => undefined;

export function onSessionEnd(call: () => void): void {
  ended = call;
}

async function failure(response: Response): Promise<ApiError> {
  let error: Record<string, unknown> = {};
  try {
    error = ((await response.json()) as { error?: Record<string, unknown> }).error ?? {};
  } catch {
    // no JSON: something between here and the server has answered
  }
  const details = error["details"] as { issues?: { path: string; message: string }[] } | null;
  return new ApiError(
    response.status,
    String(error["code"] ?? "unknown"),
    String(error["message"] ?? `The server answered with status ${response.status}.`),
    typeof error["hint"] === "string" ? error["hint"] : null,
    response.headers.get("x-request-id"),
    details?.issues ?? [],
  );
}

/** One call; the response once its status is that of a success. */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = {};
  if (method !== "GET") {
    headers["X-Sealmark-CSRF"] = csrf;
    headers["Content-Type"] = "application/json";
  }
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
      credentials: "same-origin",
      cache: "no-store",
      signal,
    });
  } catch (why) {
    if (signal?.aborted) throw why;
    throw new ApiError(0, "connection", "The server does not answer.", null, null, []);
  }
  if (response.ok) return response;
  const error = await failure(response);
  if (response.status === 401 && path !== "/api/session") ended();
  throw error;
}

export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const response = await send(method, path, body, signal);
  return (await response.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", path, undefined, signal);

/** Lines of an NDJSON answer as they come; a line that is none ends it with an error. */
export async function* lines<T>(response: Response): AsyncGenerator<T> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  if (!reader) return;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) if (part) yield JSON.parse(part) as T;
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

export async function session(): Promise<Session> {
  const found = await get<Session>("/api/session");
  csrf = found.csrf ?? "";
  return found;
}

export async function signIn(password: string): Promise<void> {
  const made = await call<Session>("POST", "/api/session", { password });
  csrf = made.csrf ?? "";
}

export async function signOut(): Promise<void> {
  await call("DELETE", "/api/session");
  csrf = "";
}

/** "/v1/x" and {a: 1, b: undefined} -> "/v1/x?a=1" */
export function withQuery(
  path: string,
  query: Record<string, string | number | boolean | string[] | undefined>,
): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) text.append(name, one);
    else if (value !== undefined && value !== "") text.set(name, String(value));
  }
  return text.size ? `${path}?${text}` : path;
}
