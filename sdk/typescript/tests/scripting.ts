// SPDX-License-Identifier: Apache-2.0 - the scripted server of the cases, seen from a test.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** From build/tests, where this runs. */
export const CASES = fileURLToPath(new URL("../../../cases/", import.meta.url));

/** The running server; its script and what was wrong about the requests. */
export class Scripted {
  private constructor(
    readonly url: string,
    private readonly process: ChildProcess,
  ) {}

  static async start(): Promise<Scripted> {
    const process = spawn("python3", [`${CASES}scripted.py`], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = (await once(createInterface(process.stdout), "line")) as [string];
    return new Scripted(line, process);
  }

  async begin(script: unknown): Promise<void> {
    await fetch(`${this.url}/_script`, { method: "POST", body: JSON.stringify(script) });
  }

  /** All that was expected came, and nothing else. */
  async check(): Promise<void> {
    const answer = await fetch(`${this.url}/_script`);
    assert.deepEqual(await answer.json(), { left: 0, problems: [] });
  }

  async stop(): Promise<void> {
    this.process.stdin?.end();
    await once(this.process, "exit");
  }
}
