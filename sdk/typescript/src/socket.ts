// SPDX-License-Identifier: Apache-2.0 - fetch over node:http, for what the global one cannot do.

import * as http from "node:http";
import * as https from "node:https";
import { type Duplex, Readable } from "node:stream";

import { invalidAnswer } from "./errors.js";

// The global fetch knows no unix sockets and no WebSockets, and breaks off an answer that is silent
// for five minutes, as that of a long command may be.

export interface SocketRequest {
  method: string;
  headers: Record<string, string>;
  body: Uint8Array | string | undefined;
  signal: AbortSignal;
}

/** A connection that speaks another protocol from now on; `head` came with the answer. */
export interface Upgraded {
  socket: Duplex;
  head: Uint8Array;
  headers: Headers;
}

/** The answer as soon as its head is there. */
export function socketFetch(url: string, socketPath: string | null, request: SocketRequest): Promise<Response> {
  return new Promise((resolve, reject) => {
    const asked = ask(url, socketPath, request, reject);
    asked.on("response", (answer) => respond(answer, resolve, reject));
    asked.end(request.body);
  });
}

/** Asks for another protocol; an answer that does not agree is a response. */
export function socketUpgrade(
  url: string,
  socketPath: string | null,
  request: SocketRequest,
): Promise<Upgraded | Response> {
  return new Promise((resolve, reject) => {
    const asked = ask(url, socketPath, request, reject);
    asked.on("response", (answer) => respond(answer, resolve, reject));
    asked.on("upgrade", (answer, socket, head) => resolve({ socket, head, headers: headersOf(answer) }));
    asked.end();
  });
}

function ask(
  url: string,
  socketPath: string | null,
  request: SocketRequest,
  reject: (error: Error) => void,
): http.ClientRequest {
  const send = url.startsWith("https:") ? https.request : http.request;
  const length = request.body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(request.body)) };
  const asked = send(url, {
    method: request.method,
    headers: { ...request.headers, ...length },
    signal: request.signal,
    agent: false,
    ...(socketPath === null ? {} : { socketPath }),
  });
  asked.on("error", reject);
  return asked;
}

function headersOf(answer: http.IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  return headers;
}

function respond(
  answer: http.IncomingMessage,
  resolve: (response: Response) => void,
  reject: (error: Error) => void,
): void {
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 599) {
    answer.destroy();
    reject(invalidAnswer(`The server answered with status ${status}.`));
    return;
  }
  const empty = status === 204 || status === 205 || status === 304;
  if (empty) answer.resume();
  // a web stream that is cancelled destroys the answer, and with it the connection
  const body = empty ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>);
  resolve(new Response(body, { status, headers: headersOf(answer) }));
}
