// SPDX-License-Identifier: Apache-2.0
// A chart over time, by uPlot: redrawn when its values or the room for it change.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

const colours = ["#2f7fd1", "#c07a1e", "#2f8f7b", "#a3486b", "#6b7d2a"];

function ink(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Chart({
  label,
  times,
  series,
  format,
  from,
  to,
  bars = false,
  utc = false,
}: {
  label: string;
  /** Unix seconds, rising. */
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  format: (value: number) => string;
  /** What is shown, in Unix seconds, also where nothing is known. */
  from: number;
  to: number;
  bars?: boolean;
  /** Days as the server counts them, not those of whoever looks. */
  utc?: boolean;
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const key = JSON.stringify([times, series, from, to]);
  useEffect(() => {
    const box = place.current;
    if (!box || times.length === 0) return;
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 } };
    const paths = bars ? uPlot.paths.bars?.({ size: [0.7, 48] }) : undefined;
    const plot = new uPlot(
      {
        width: box.clientWidth,
        height: box.clientHeight - 40,
        tzDate: utc ? (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : undefined,
        scales: {
          x: { range: () => [from, to] },
          y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] },
        },
        axes: [axis, { ...axis, size: 80, values: (_, ticks) => ticks.map(format) }],
        series: [
          {},
          ...series.map((one, i) => {
            const colour = colours[i % colours.length];
            return {
              label: one.name,
              stroke: colour,
              width: 2,
              fill: bars ? colour : undefined,
              paths,
              points: bars ? { show: false } : undefined,
              value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
            };
          }),
        ],
      },
      [times, ...series.map((one) => one.values)],
      box,
    );
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: box.clientWidth, height: box.clientHeight - 40 }),
    );
    observer.observe(box);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [key]);
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}
