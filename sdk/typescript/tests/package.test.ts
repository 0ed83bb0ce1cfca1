// SPDX-License-Identifier: Apache-2.0 - what no case can say: disposal, settings, limits, tar.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { checkPack, pack, unpack } from "../src/archive.js";
import { inPieces } from "../src/files.js";
import {
  ArchiveError,
  AuthenticationError,
  ConnectionError,
  InvalidRequestError,
  Runtime,
  Sandbox,
  SealmarkError,
} from "../src/index.js";
import { Frames, type Message } from "../src/frames.js";
import { capacityDelay, change, dataBytes, Lines, pause, retryDelay } from "../src/protocol.js";
import { Collector, KEPT_BYTES } from "../src/records.js";
import { Settings } from "../src/settings.js";
import { padding, readTar, TAR_END, tarHeader } from "../src/tar.js";
import { Transport } from "../src/transport.js";

let folder: string;
before(async () => {
  folder = await fs.mkdtemp(path.join(tmpdir(), "sealmark-"));
});
after(() => fs.rm(folder, { recursive: true }));

/** A server that answers like one with a single sandbox, and notes what it was asked. */
async function serving(
  where: string | number,
  work: (asked: string[], url: string) => Promise<void>,
  removal = 200,
): Promise<void> {
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    request.resume();
    request.on("end", () => {
      response.statusCode = request.method === "DELETE" ? removal : 200;
      if (request.url?.endsWith(":exec")) {
        // says that it runs, writes a letter, and nothing more
        response.write('{"type":"start","processId":"p1"}\n{"type":"stdout","data":"x","offset":0}\n');
        response.on("close", () => asked.push("closed"));
        return;
      }
      response.end(JSON.stringify({ id: "b1", state: "running" }));
    });
  });
  await new Promise<void>((resolve) => server.listen(where, () => resolve()));
  try {
    const { port } = server.address() as AddressInfo;
    await work(asked, typeof where === "string" ? `unix:${where}` : `http://localhost:${port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test("await using removes the sandbox, also after an error", async () => {
  await serving(0, async (asked, baseUrl) => {
    const runtime = new Runtime({ apiKey: "k", baseUrl });
    await assert.rejects(
      async () => {
        await using box = await runtime.sandboxes.create();
        throw new Error(`own of ${box.id}`);
      },
      { message: "own of b1" },
    );
    assert.deepEqual(asked, ["POST /v1/sandboxes", "DELETE /v1/sandboxes/b1"]);
  });
});

test("a removal that fails is a warning after await using", async () => {
  const warnings: string[] = [];
  const note = (warning: Error) => warnings.push(warning.message);
  process.on("warning", note);
  try {
    await serving(
      0,
      async (_, baseUrl) => {
        const runtime = new Runtime({ apiKey: "k", baseUrl, maxRetries: 0 });
        await assert.rejects(
          async () => {
            await using _box = await runtime.sandboxes.create();
            throw new Error("own");
          },
          { message: "own" },
        );
      },
      500,
    );
    await until(() => warnings.length > 0);
    assert.match(warnings.join(), /sandbox b1 could not be removed/);
  } finally {
    process.off("warning", note);
  }
});

test("an aborted signal ends the command and is what exec rejects with", { timeout: 30_000 }, async () => {
  await serving(0, async (asked, baseUrl) => {
    const box: Sandbox = await new Runtime({ apiKey: "k", baseUrl }).sandboxes.create();
    const controller = new AbortController();
    const onStdout = () => controller.abort(new Error("enough"));
    const running = box.exec("echo x; sleep 1000", { signal: controller.signal, onStdout });
    await assert.rejects(running, { message: "enough" });
    await until(() => asked.includes("closed"));
    assert.ok(asked.includes("POST /v1/sandboxes/b1/processes/p1:signal"), String(asked));
  });
});

test("leaving the loop of execStream ends the command", { timeout: 30_000 }, async () => {
  await serving(0, async (asked, baseUrl) => {
    const box = await new Runtime({ apiKey: "k", baseUrl }).sandboxes.create();
    for await (const event of box.execStream("sleep 1000")) {
      assert.equal(event.type, "start");
      break;
    }
    await until(() => asked.includes("closed"));
    assert.ok(asked.includes("POST /v1/sandboxes/b1/processes/p1:signal"), String(asked));
  });
});

test("a unix socket", { timeout: 30_000 }, async () => {
  await serving(path.join(folder, "s.sock"), async (asked, baseUrl) => {
    const runtime = new Runtime({ apiKey: "k", baseUrl });
    assert.equal((await runtime.me())["id"], "b1");
    assert.deepEqual(asked, ["GET /v1/me"]);
  });
  const gone = new Runtime({ apiKey: "k", baseUrl: `unix:${folder}/none`, maxRetries: 0 });
  await assert.rejects(gone.me(), (error) => error instanceof ConnectionError && error.details["sent"] === false);
});

test("settings come from the environment", () => {
  const env = { RUNTIME_API_KEY: "r", SEALMARK_API_URL: "http://a:1/", RUNTIME_API_URL: "http://b" };
  const found = new Settings({}, env);
  assert.deepEqual([found.authorization(), found.baseUrl, found.authUrl], ["Bearer r", "http://a:1", "http://a:1"]);
  assert.equal(new Settings({}, { ...env, SEALMARK_API_KEY: "s" }).authorization(), "Bearer s");
  const given = new Settings({ apiKey: "k", baseUrl: "unix:/run/s.sock", authUrl: "https://people" }, {});
  assert.deepEqual([given.socketPath, given.authUrl], ["/run/s.sock", "https://people"]);
  for (const baseUrl of ["nonsense", "unix:relative", "ftp://x", "http://x?key=1"]) {
    assert.throws(() => new Settings({ apiKey: "k", baseUrl }, {}), InvalidRequestError);
  }
  assert.throws(
    () => new Settings({}, {}),
    (error) => error instanceof AuthenticationError && error.code === "no_key",
  );
});

test("the key is never shown", async () => {
  const runtime = new Runtime({ apiKey: "hidden-key", baseUrl: "http://127.0.0.1:9", maxRetries: 1 });
  const failed = await runtime.me().catch((error: unknown) => error);
  assert.ok(failed instanceof ConnectionError && failed.retryable);
  const everything = inspect(runtime, { depth: 9, showHidden: true }) + inspect(failed, { depth: 9 });
  assert.ok(!(everything + JSON.stringify(runtime)).includes("hidden"), everything);
  for (const apiKey of ["hidden\nkey", "hidden ключ"]) {
    assert.throws(
      () => new Runtime({ apiKey }),
      (error) => error instanceof AuthenticationError && !inspect(error).includes("hidden"),
    );
  }
});

test("waits grow to a ceiling and differ", () => {
  const waits = Array.from({ length: 12 }, (_, attempt) => pause(null, attempt, () => 1) ?? 0);
  assert.deepEqual(waits.slice(0, 3), [100, 200, 400]);
  assert.equal(waits.at(-1), 5000);
  assert.notEqual(pause(null, 3, () => 0), pause(null, 3, () => 0.9));
  const named = new SealmarkError("", { retryable: true, retryAfterMs: 2000 });
  assert.equal(pause(named, 0, () => 0), 2000);
  assert.ok((pause(named, 9, () => 1) ?? 0) > 2000);
});

test("the wait for room takes the time named and no more", () => {
  const full = new SealmarkError("", { code: "no_capacity", retryable: true, retryAfterMs: 60_000 });
  assert.equal(capacityDelay(full, 0, 600_000, () => 0), 60_000);
  assert.equal(capacityDelay(full, 0, 6_000, () => 1), 6_000);
});

async function* archive(files: Record<string, string>): AsyncGenerator<Uint8Array, void, undefined> {
  for (const [name, text] of Object.entries(files)) {
    const content = Buffer.from(text);
    yield tarHeader({ name, kind: "file", mode: 0o644, size: content.length }, 0);
    yield content;
    yield padding(content.length);
  }
  yield TAR_END;
}

test("a folder that is there is merged into", async () => {
  const target = path.join(folder, "merged");
  await fs.mkdir(path.join(target, "d"), { recursive: true });
  for (const name of ["d/old", "d/both", "elsewhere"]) await fs.writeFile(path.join(target, name), "old");
  await fs.symlink("../elsewhere", path.join(target, "d/link"));
  await unpack(archive({ "d/both": "new", "d/new": "new", "d/link": "new" }), target, "refuse");
  const found = await Promise.all(
    ["d/old", "d/both", "d/new", "d/link", "elsewhere"].map((name) => fs.readFile(path.join(target, name), "utf8")),
  );
  assert.deepEqual(found, ["old", "new", "new", "new", "old"]);
});

test("what is in the way stops a merge before it begins", async () => {
  const target = path.join(folder, "blocked");
  await fs.mkdir(path.join(target, "folder"), { recursive: true });
  await fs.symlink(folder, path.join(target, "link"));
  const blocked: Record<string, string>[] = [
    { a: "1", folder: "2" },
    { a: "1", "link/x": "2" },
  ];
  for (const files of blocked) {
    await assert.rejects(unpack(archive(files), target, "refuse"), ArchiveError);
    assert.deepEqual((await fs.readdir(target)).sort(), ["folder", "link"]);
  }
});

test("what could be done twice is not sent again", () => {
  const lost = new ConnectionError("", { retryable: true, details: { sent: true } });
  const unsent = new ConnectionError("", { retryable: true, details: { sent: false } });
  const once = change("POST", "/", { once: true });
  assert.equal(retryDelay(once, lost, 0, 4), null);
  assert.notEqual(retryDelay(once, unsent, 0, 4), null);
  assert.notEqual(retryDelay(change("POST", "/"), lost, 0, 4), null);
  assert.equal(retryDelay(once, unsent, 4, 4), null);
});

test("a stream that should have ended ends", { timeout: 30_000 }, async () => {
  // a server that sends an empty line now and then is not silent, but is no command either
  const server = createServer((_, response) => {
    const timer = setInterval(() => response.write("\n"), 20);
    response.on("close", () => clearInterval(timer));
  });
  await new Promise<void>((resolve) => server.listen(0, () => resolve()));
  try {
    const { port } = server.address() as AddressInfo;
    const transport = new Transport(new Settings({ apiKey: "k", baseUrl: `http://localhost:${port}` }));
    const read = async () => {
      for await (const _ of transport.lines({ method: "GET", path: "/", timeoutMs: 300, ends: true }));
    };
    await assert.rejects(read, (error) => error instanceof ConnectionError && error.code === "timeout");
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("lines come in any pieces", () => {
  const whole = Buffer.from('{"a":"é"}\n\n{"b":2}\r\n{"c":3}');
  for (let size = 1; size <= whole.length; size++) {
    const lines = new Lines();
    const found: unknown[] = [];
    for (let at = 0; at < whole.length; at += size) found.push(...lines.feed(whole.subarray(at, at + size)));
    assert.deepEqual([...found, ...lines.finish()], [{ a: "é" }, { b: 2 }, { c: 3 }]);
  }
});

test("pieces have the size that is asked for", async () => {
  const source = [1, 5, 0, 12, 3, 7].map((count) => new Uint8Array(count));
  const sizes: number[] = [];
  for await (const piece of inPieces(source, 7)) sizes.push(piece.length);
  assert.deepEqual(sizes, [7, 7, 7, 7]);
});

test("followed output is kept up to a limit", () => {
  const collector = new Collector("p");
  const data = "x".repeat(1 << 20);
  const raw = Buffer.from(data);
  for (let index = 0; index <= KEPT_BYTES >> 20; index++) {
    collector.take({ type: "stdout", data, raw, offset: index << 20 });
  }
  collector.take({
    type: "exit",
    exitCode: 0,
    state: "exited",
    timedOut: false,
    durationMs: 1,
    processId: null,
    outOfMemory: null,
  });
  const result = collector.result();
  assert.deepEqual([result.stdout.length, result.stdoutTruncated], [KEPT_BYTES, true]);
  assert.deepEqual([result.stderr, result.stderrTruncated], ["", false]);
});

test("what is packed here is tar to others, and to us", async () => {
  const source = path.join(folder, "tree");
  const names = ["a", "ünï", `${"d".repeat(80)}/${"e".repeat(120)}/f`, "n".repeat(99), "n".repeat(100)];
  for (const name of names) {
    await fs.mkdir(path.dirname(path.join(source, name)), { recursive: true });
    await fs.writeFile(path.join(source, name), name.repeat(100), { mode: 0o640 });
  }
  const parts: Uint8Array[] = [];
  for await (const piece of pack(source, "refuse")) parts.push(piece);
  const listed = spawnSync(
    "python3",
    [
      "-c",
      "import sys, tarfile\n" +
        "for m in tarfile.open(fileobj=sys.stdin.buffer, mode='r|'):\n" +
        "    print(m.name, oct(m.mode), m.size) if m.isfile() else None",
    ],
    { input: Buffer.concat(parts), encoding: "utf8", env: { ...process.env, PYTHONIOENCODING: "utf-8" } },
  );
  const expected = names.map((name) => `${name} 0o640 ${Buffer.byteLength(name) * 100}`).sort();
  assert.deepEqual(listed.stdout.trim().split("\n").sort(), expected, listed.stderr);
  const own: string[] = [];
  // in pieces that fit no block
  for await (const entry of readTar(inPieces([Buffer.concat(parts)], 1000))) {
    let size = 0;
    for await (const piece of entry.content) size += piece.length;
    if (entry.kind === "file") own.push(`${entry.name} 0o${entry.mode.toString(8)} ${size}`);
  }
  assert.deepEqual(own.sort(), expected);
});

test("noise is no archive, and no crash", async () => {
  let state = 1;
  const noise = (count: number): Buffer =>
    Buffer.from(Array.from({ length: count }, () => (state = (state * 1103515245 + 12345) & 0x7fffffff) >> 16 & 255));
  for (let round = 0; round < 200; round++) {
    const archive = Buffer.concat([noise(512), TAR_END]);
    // every second time with a sum that is right, so that the rest of the header is looked at
    if (round % 2) {
      archive.fill(32, 148, 156);
      let sum = 0;
      for (const byte of archive.subarray(0, 512)) sum += byte;
      archive.write(sum.toString(8).padStart(6, "0") + "\0 ", 148);
      archive[156] = "0x5gLK21"[round % 8]!.charCodeAt(0);
      archive.write((round * 37).toString(8).padStart(11, "0") + "\0", 124);
    }
    const all = (async () => {
      for await (const entry of readTar(inPieces([archive], 100))) for await (const _ of entry.content);
    })();
    await all.catch((error: unknown) => {
      if (!(error instanceof SealmarkError)) throw error;
    });
  }
});

test("frames say the same in any pieces", () => {
  const letter = Buffer.from("\u00fc");
  const sent = [
    Buffer.from([0x02, 1, letter[0] ?? 0, 0x89, 1, 7, 0x80, 1, letter[1] ?? 0]),
    Buffer.from([0x82, 126, 0, 126, ...Buffer.alloc(126, 1)]),
    Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0, ...Buffer.alloc(65536, 2)]),
    Buffer.from([0x81, 0, 0x88, 2, 3, 0xe8, 0xff, 0xff]),
  ];
  const whole = Buffer.concat(sent);
  for (const size of [1, 2, 3, 7, 130, 4096, whole.length]) {
    const frames = new Frames();
    const out: Message[] = [];
    for (let at = 0; at < whole.length; at += size) out.push(...frames.feed(whole.subarray(at, at + size)));
    assert.deepEqual(
      out.map(({ kind, data }) => [kind, data.length, data[0]]),
      [
        ["ping", 1, 7],
        ["binary", 2, letter[0]],
        ["binary", 126, 1],
        ["binary", 65536, 2],
        ["text", 0, undefined],
        ["close", 2, 3],
      ],
    );
  }
});

test("closing a terminal ends the wait of its reader, whatever the server does", { timeout: 60_000 }, async () => {
  const heard: Buffer[] = [];
  const server = createServer();
  server.on("upgrade", (request, socket) => {
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    const ready = Buffer.from(JSON.stringify({ type: "ready", processId: "p1" }));
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.write(Buffer.concat([Buffer.from([0x81, ready.length]), ready]));
    socket.on("data", (piece: Buffer) => heard.push(piece)); // and no answer
    socket.on("end", () => socket.end());
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, () => resolve()));
  const { port } = server.address() as AddressInfo;
  const runtime = new Runtime({ apiKey: "k", baseUrl: `http://localhost:${port}` });
  const box = new Sandbox(new Transport(runtime.settings), { id: "b1", state: "running" });
  const terminal = await box.terminal();
  const reading = terminal.recv();
  await terminal.close();
  assert.equal(await reading, null);
  assert.equal(Buffer.concat(heard)[0], 0x88, "it said goodbye");
  await assert.rejects(terminal.write("x"), { code: "closed" });
  const controller = new AbortController();
  controller.abort(new Error("enough"));
  await assert.rejects(box.terminal({ signal: controller.signal }), { message: "enough" });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test("a create that is given up leaves nothing", { timeout: 60_000 }, async () => {
  const keys: unknown[] = [];
  const asked: string[] = [];
  const controller = new AbortController();
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.method === "POST") keys.push(request.headers["idempotency-key"]);
    request.resume();
    request.on("end", () => {
      if (asked.length === 1) controller.abort(new Error("enough"));
      else response.end(JSON.stringify({ id: "b1", state: "running" }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, () => resolve()));
  const { port } = server.address() as AddressInfo;
  const runtime = new Runtime({ apiKey: "k", baseUrl: `http://localhost:${port}` });
  await assert.rejects(runtime.sandboxes.create({ signal: controller.signal }), { message: "enough" });
  assert.deepEqual(asked, ["POST /v1/sandboxes", "POST /v1/sandboxes", "DELETE /v1/sandboxes/b1"]);
  assert.ok(keys[0] && keys[0] === keys[1]);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test("data are bytes in any guise, and nothing else", () => {
  const words = new Uint16Array([0x0102, 0x0304]);
  const bytes = [...new Uint8Array(words.buffer)];
  assert.deepEqual([...dataBytes(words)], bytes);
  assert.deepEqual([...dataBytes(words.buffer)], bytes);
  assert.deepEqual([...dataBytes(new DataView(words.buffer, 1, 2))], bytes.slice(1, 3));
  assert.deepEqual([...dataBytes("\u00fc")], [0xc3, 0xbc]);
  for (const other of [5, null, undefined, [1], { length: 1 }]) {
    assert.throws(() => dataBytes(other as unknown as string), InvalidRequestError);
  }
});

test("a name that is no UTF-8 stops an upload before it begins", async () => {
  const root = path.join(folder, "names");
  await fs.mkdir(root);
  await fs.writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff])]), "");
  await assert.rejects(checkPack(root, "skip"), ArchiveError);
  await fs.rm(root, { recursive: true });
  await fs.mkdir(root);
  await fs.writeFile(path.join(root, "\ufffd"), ""); // this one is
  await checkPack(root, "refuse");
});
