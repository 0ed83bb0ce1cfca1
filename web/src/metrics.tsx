// SPDX-License-Identifier: Apache-2.0
// What a sandbox used over time.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { get } from "./api";
import { Chart } from "./chart";
import { Empty, Failure, useLoad } from "./ui";

interface Point {
  at: string;
  cpuPercent: number;
  memoryBytes: number;
  networkInBytes: number;
  networkOutBytes: number;
}

const seconds: Record<string, number> = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400 };

export function Metrics({ base }: { base: string }): JSX.Element {
  const [range, setRange] = useState("15m");
  const { value, error } = useLoad<{ points: Point[]; memoryLimitBytes: number }>(
    (signal) => get(`${base}/metrics?range=${range}`, signal),
    [range],
    5000,
  );
  const points = value?.points ?? [];
  const times = points.map((point) => Date.parse(point.at) / 1000);
  const to = Date.now() / 1000;
  const shown = { times, from: to - (seconds[range] ?? 900), to };
  const mebibytes = (bytes: number): number => bytes / 1048576;
  return (
    <>
      <div class="row">
        <select
          aria-label="Range"
          value={range}
          onChange={(event) => setRange(event.currentTarget.value)}
        >
          <option value="15m">15 minutes</option>
          <option value="1h">an hour</option>
          <option value="6h">6 hours</option>
          <option value="24h">a day</option>
        </select>
      </div>
      <Failure error={error} />
      {value && points.length === 0 && <Empty>Nothing was measured yet.</Empty>}
      {points.length > 0 && (
        <>
          <h2>CPU</h2>
          <Chart
            label="CPU over time"
            {...shown}
            series={[{ name: "CPU", values: points.map((point) => point.cpuPercent) }]}
            format={(percent) => `${percent.toFixed(0)} %`}
          />
          <h2>Memory</h2>
          <Chart
            label="Memory over time"
            {...shown}
            series={[{ name: "memory", values: points.map((p) => mebibytes(p.memoryBytes)) }]}
            format={(mib) => `${mib.toFixed(0)} MiB`}
          />
          <h2>Network</h2>
          <Chart
            label="Network over time"
            {...shown}
            series={[
              { name: "in", values: points.map((p) => mebibytes(p.networkInBytes)) },
              { name: "out", values: points.map((p) => mebibytes(p.networkOutBytes)) },
            ]}
            format={(mib) => `${mib.toFixed(1)} MiB`}
          />
        </>
      )}
    </>
  );
}
