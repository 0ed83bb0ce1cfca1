// SPDX-License-Identifier: Apache-2.0
// Processes in the background of a sandbox: what runs, what each has written, an end to it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { call, get, type Page } from "./api";
import { plain } from "./command";
import { Action, Empty, Failure, useLoad, when } from "./ui";

interface Process {
  id: string;
  state: string;
  command: string;
  startedAt: string;
  endedAt: string | null;
  exitCode: number | null;
  outputBytes: number;
}

interface Output {
  events: { type: string; data?: string }[];
}

function Written({ base, process }: { base: string; process: Process }): JSX.Element {
  const { value, error } = useLoad<Output>(
    (signal) => get(`${base}/processes/${process.id}/output?cursor=0`, signal),
    [process.id],
    process.state === "running" ? 2000 : 0,
  );
  const text = (value?.events ?? []).map((event) => plain(event.data ?? "")).join("");
  return (
    <>
      <Failure error={error} />
      {value && <pre class="output">{text || "It has written nothing."}</pre>}
    </>
  );
}

export function Processes({ base }: { base: string }): JSX.Element {
  const { value, error, reload } = useLoad<Page<Process>>(
    (signal) => get(`${base}/processes`, signal),
    [base],
    2000,
  );
  const [shown, setShown] = useState("");
  const [wrong, setWrong] = useState<unknown>(null);
  const chosen = value?.data.find((one) => one.id === shown);
  return (
    <>
      <Failure error={wrong ?? error} />
      {value?.data.length === 0 && <Empty>No process was started in the background.</Empty>}
      {value && value.data.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Command</th>
                <th>State</th>
                <th>Started</th>
                <th class="number">Output</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {value.data.map((one) => (
                <tr key={one.id}>
                  <td class="mono">{plain(one.command)}</td>
                  <td>
                    {one.state.replaceAll("_", " ")}
                    {one.exitCode !== null && ` (${one.exitCode})`}
                  </td>
                  <td class="time">{when(one.startedAt)}</td>
                  <td class="number">{one.outputBytes} B</td>
                  <td>
                    <div class="row">
                      <button
                        type="button"
                        onClick={() => setShown(shown === one.id ? "" : one.id)}
                      >
                        {shown === one.id ? "Hide" : "Output"}
                      </button>
                      {one.state === "running" && (
                        <Action
                          run={async () => {
                            const body = { signal: "SIGKILL" };
                            await call("POST", `${base}/processes/${one.id}:signal`, body);
                            reload();
                          }}
                          onError={setWrong}
                          kind="danger"
                          confirm="Kill this process?"
                        >
                          Kill
                        </Action>
                      )}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {chosen && <Written base={base} process={chosen} />}
    </>
  );
}
