// SPDX-License-Identifier: Apache-2.0
// One sandbox: its state and lease, what may be done with it, and the tools inside.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { call, get } from "./api";
import { Command } from "./command";
import { Files } from "./files";
import { Metrics } from "./metrics";
import { Processes } from "./processes";
import { Labels, type Sandbox } from "./sandboxes";
import { Terminal } from "./terminal";
import { Action, duration, Failure, money, State, useLoad, useSecondsUntil, when } from "./ui";

const tools = ["Command", "Terminal", "Processes", "Files", "Metrics"] as const;
type Tool = (typeof tools)[number];

function LeaseBar({ sandbox }: { sandbox: Sandbox }): JSX.Element | null {
  const left = useSecondsUntil(sandbox.expiresAt);
  if (left === null || !sandbox.readyAt || sandbox.state !== "running") return null;
  const whole = sandbox.timeoutSeconds;
  return (
    <div>
      <progress max={whole} value={Math.min(whole, Math.max(0, left))} aria-label="Lease left" />
      <div class="fine">
        {duration(left)} of the lease left; then it will {sandbox.onLeaseEnd}.
      </div>
    </div>
  );
}

function Facts({ sandbox }: { sandbox: Sandbox }): JSX.Element {
  const facts: [string, JSX.Element | string][] = [
    ["State", <State state={sandbox.state} />],
    ["Cost so far", money(sandbox.chargedMicros)],
    ["Held for the lease", money(sandbox.heldMicros)],
    ["Shape", `${sandbox.vcpu} vCPU, ${sandbox.memoryMiB} MiB`],
    ["Image", sandbox.image ?? "default"],
    ["Isolation", sandbox.isolation ?? "–"],
    ["Created", when(sandbox.createdAt)],
    ["Last active", when(sandbox.lastActiveAt)],
    ["Id", <code>{sandbox.id}</code>],
  ];
  if (sandbox.endedAt) facts.push(["Ended", when(sandbox.endedAt)]);
  if (sandbox.stopReason) facts.push(["Why", sandbox.stopReason.replaceAll("_", " ")]);
  if (sandbox.pausedExpiresAt) facts.push(["Kept until", when(sandbox.pausedExpiresAt)]);
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function SandboxPage({ id, go }: { id: string; go: (path: string) => void }): JSX.Element {
  const base = `/v1/sandboxes/${id}`;
  const { value, error, reload } = useLoad<Sandbox>((signal) => get(base, signal), [id], 2000);
  const [wrong, setWrong] = useState<unknown>(null);
  const [tool, setTool] = useState<Tool>("Command");
  if (!value) return error ? <Failure error={error} /> : <p class="loading">Loading…</p>;

  const ask =
    (verb: string, body: unknown = {}) =>
    async (): Promise<void> => {
      await call("POST", `${base}:${verb}`, body);
      reload();
    };
  const runs = value.state === "running";
  const paused = value.state === "paused";
  const over = value.state === "stopped" || value.state === "stopping";
  return (
    <>
      <div class="row spread">
        <div class="row">
          <h1>{value.name ?? value.id.slice(0, 8)}</h1>
          <Labels labels={value.labels} />
        </div>
        <div class="row">
          {runs && (
            <Action run={ask("extend", { seconds: 1800 })} onError={setWrong}>
              Extend by 30 min
            </Action>
          )}
          {runs && value.pausable && (
            <Action run={ask("pause")} onError={setWrong}>
              Pause
            </Action>
          )}
          {paused && (
            <Action run={ask("wake")} onError={setWrong} kind="primary">
              Wake
            </Action>
          )}
          {!over && (
            <Action
              run={ask("stop")}
              onError={setWrong}
              kind="danger"
              confirm="Stop this sandbox? What is in it is lost."
            >
              Stop
            </Action>
          )}
          {over && (
            <Action
              run={async () => {
                await call("DELETE", base);
                go("/");
              }}
              onError={setWrong}
              kind="danger"
              confirm="Forget this sandbox? Its charges stay."
            >
              Forget
            </Action>
          )}
        </div>
      </div>
      <Failure error={wrong ?? error} />
      <section class="card" aria-label="About it">
        <Facts sandbox={value} />
        <LeaseBar sandbox={value} />
      </section>
      {!over && (
        <section class="card">
          <div class="tabs" role="tablist">
            {tools.map((one) => (
              <button
                key={one}
                type="button"
                role="tab"
                aria-selected={one === tool}
                onClick={() => setTool(one)}
              >
                {one}
              </button>
            ))}
          </div>
          {tool === "Command" && <Command base={base} />}
          {tool === "Terminal" && <Terminal base={base} />}
          {tool === "Processes" && <Processes base={base} />}
          {tool === "Files" && <Files base={base} />}
          {tool === "Metrics" && <Metrics base={base} />}
        </section>
      )}
    </>
  );
}
