// SPDX-License-Identifier: Apache-2.0
// What was used, and what it cost: by day, and by key, label or sandbox.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { get, withQuery } from "./api";
import { Chart } from "./chart";
import { Empty, Failure, money, useLoad } from "./ui";

interface Group {
  key: string;
  name: string;
  sandboxes: number;
  chargedMicros: number | string;
  cpuMs: number;
  runningMs: number;
}

interface Answer {
  spent: number | string;
  held: number | string;
  groups: Group[];
}

const DAY = 86400;
/** In days as the server counts them, of which one may be begun. */
const ranges: Record<string, number> = { "24h": 2, "7d": 8, "30d": 31, "90d": 91 };

/** Every day of the range, those without a charge too. */
function byDay(groups: Group[], range: string): { times: number[]; values: (number | null)[] } {
  const found = new Map(groups.map((one) => [one.key.slice(0, 10), Number(one.chargedMicros)]));
  const today = Math.floor(Date.now() / 1000 / DAY) * DAY;
  const times: number[] = [];
  for (let i = (ranges[range] ?? 1) - 1; i >= 0; i--) times.push(today - i * DAY);
  const day = (at: number): string => new Date(at * 1000).toISOString().slice(0, 10);
  const dollars = (at: number): number | null => {
    const charged = found.get(day(at));
    return charged ? charged / 1e6 : null;
  };
  return { times, values: times.map(dollars) };
}

export function Usage(): JSX.Element {
  const [range, setRange] = useState("30d");
  const [group, setGroup] = useState("key");
  const days = useLoad<Answer>(
    (signal) => get(`/v1/usage?range=${range}&groupBy=day`, signal),
    [range],
    15000,
  );
  const groups = useLoad<Answer>(
    (signal) => get(`/v1/usage?range=${range}&groupBy=${group}`, signal),
    [range, group],
    15000,
  );
  const chart = byDay(days.value?.groups ?? [], range);
  const rows = groups.value?.groups ?? [];
  return (
    <>
      <div class="row spread">
        <h1>Usage</h1>
        <div class="row">
          <select
            aria-label="Range"
            value={range}
            onChange={(event) => setRange(event.currentTarget.value)}
          >
            <option value="24h">24 hours</option>
            <option value="7d">7 days</option>
            <option value="30d">30 days</option>
            <option value="90d">90 days</option>
          </select>
          <a
            href={withQuery("/v1/usage", { range, groupBy: group, format: "csv" })}
            download={`usage-by-${group}.csv`}
          >
            Save as CSV
          </a>
        </div>
      </div>
      <Failure error={days.error ?? groups.error} />
      {days.value && (
        <section class="card">
          <dl>
            <div>
              <dt>Spent</dt>
              <dd>{money(Number(days.value.spent))}</dd>
            </div>
            <div>
              <dt>Held for leases that run</dt>
              <dd>{money(Number(days.value.held))}</dd>
            </div>
          </dl>
          {days.value.groups.length > 0 ? (
            <Chart
              label="Cost of each day"
              times={chart.times}
              series={[{ name: "cost", values: chart.values }]}
              format={(dollars) => money(Math.round(dollars * 1e6))}
              from={(chart.times[0] ?? 0) - DAY / 2}
              to={(chart.times.at(-1) ?? 0) + DAY / 2}
              bars
              utc
            />
          ) : (
            <Empty>Nothing was charged in this time.</Empty>
          )}
        </section>
      )}
      <section class="card">
        <div class="row spread">
          <h2>By {group}</h2>
          <select
            aria-label="Group"
            value={group}
            onChange={(event) => setGroup(event.currentTarget.value)}
          >
            <option value="key">by key</option>
            <option value="label">by label</option>
            <option value="sandbox">by sandbox</option>
            <option value="day">by day</option>
          </select>
        </div>
        {groups.value && rows.length === 0 && <Empty>Nothing was charged in this time.</Empty>}
        {rows.length > 0 && (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th class="first">{group}</th>
                  <th class="number">Sandboxes</th>
                  <th class="number">CPU</th>
                  <th class="number">Running</th>
                  <th class="number">Cost</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.key}>
                    <td>{row.name || row.key}</td>
                    <td class="number">{row.sandboxes}</td>
                    <td class="number">{(row.cpuMs / 1000).toFixed(1)} s</td>
                    <td class="number">{(row.runningMs / 1000).toFixed(0)} s</td>
                    <td class="number">{money(Number(row.chargedMicros))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}
