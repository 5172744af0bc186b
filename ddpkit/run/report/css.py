"""Style of the page: light and dark, on paper, and at a phone's width. One string, no file beside the page.

A column in reverse (`.end`) is a box that begins scrolled to its end, without a script.
"""

CSS = """
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --ink: #1b2330; --soft: #5b6675; --line: #dfe3e9; --grid: #e9ecf0;
  --good: #1a7f4b; --bad: #b3261e; --busy: #1f5fbf; --other: #6b5b00; --heat: #b3341f; --code: #f1f3f6;
  --s0: #1f5fbf; --s1: #c2570c; --s2: #1a7f4b; --s3: #8a3ea8; --s4: #a3195b; --s5: #53616f;
  --p-prepared: #9aa5b4; --p-queued: #b9a88f; --p-start: #c3c9d2; --p-python: #7d8896; --p-import: #e0b04a;
  --p-imported: #3d7edb; --p-cuda: #7fb800; --p-meet: #e58a3c; --p-connect: #d64f8a;
  --p-listed: #aab7c6; --p-staged: #a0673f;
  --p-group: #b05cc9; --p-wrap: #8c8f2d; --p-collective: #2aa6a1; --p-step: #2f9e68; }
@media (prefers-color-scheme: dark) { :root {
  --page: #11151b; --card: #191f28; --ink: #e6eaf0; --soft: #9aa6b5; --line: #2c3542; --grid: #252d38;
  --good: #4ecb8a; --bad: #ff7a6e; --busy: #7fb0ff; --other: #d9c25b; --heat: #ff7a55; --code: #131820;
  --s0: #7fb0ff; --s1: #f59a55; --s2: #4ecb8a; --s3: #cf96e8; --s4: #f27fb2; --s5: #a9b4c0;
  --p-prepared: #66717f; --p-queued: #8a7a5f; --p-start: #454f5c; --p-python: #8d98a6; --p-import: #c99c3d;
  --p-imported: #4f8de6; --p-cuda: #8fc31f; --p-meet: #dd8138; --p-connect: #df6a9c;
  --p-listed: #55606e; --p-staged: #c08a5e;
  --p-group: #b673cc; --p-wrap: #a5a83c; --p-collective: #37b8b3; --p-step: #36ad74; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto,
  "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 1060px; margin: 0 auto; padding: 20px 16px 40px; }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; letter-spacing: -0.01em; }
h2 { font-size: 1.02rem; margin: 0 0 4px; }
h3 { font-size: 0.9rem; margin: 0 0 2px; font-weight: 600; }
.chart h3 { margin-bottom: 12px; }
#places table { width: auto; min-width: 40%; } #places td, #places th { padding-right: 26px; }
p { margin: 4px 0 10px; max-width: 80ch; overflow-wrap: anywhere; }
.soft, footer { color: var(--soft); } .small { font-size: 0.85rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
  margin-top: 14px; }
.head { border-left: 5px solid var(--soft); }
.head.done { border-left-color: var(--good); } .head.failed, .head.lost { border-left-color: var(--bad); }
.head.running, .head.queued { border-left-color: var(--busy); }
.head.stopped { border-left-color: var(--other); }
.title { display: flex; flex-wrap: wrap; gap: 6px 12px; align-items: center; }
.badge { font-size: 0.8rem; font-weight: 600; padding: 1px 10px; border-radius: 99px; border: 1px solid; }
.done .badge { color: var(--good); } .failed .badge, .lost .badge { color: var(--bad); }
.running .badge, .queued .badge { color: var(--busy); } .stopped .badge { color: var(--other); }
.verdict { font-size: 1.05rem; margin: 10px 0; } .head pre { margin: 0 0 12px; max-height: 16em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 8px 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
code, pre { font: 0.84rem/1.45 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; white-space: pre-wrap; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 7px; padding: 10px 12px; margin: 8px 0 0;
  overflow-x: auto; max-height: 32em; }
.end { display: flex; flex-direction: column-reverse; overflow-y: auto; max-height: 32em; }
.end pre { max-height: none; flex: none; max-width: 100%; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; }
th, td { text-align: left; padding: 3px 12px 3px 0; vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); }
tbody th { font-weight: 500; }
.lane { fill: var(--busy); } .lane.done { fill: var(--good); } .lane.failed, .lane.lost { fill: var(--bad); }
.lane.stopped { fill: var(--soft); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.strips { table-layout: fixed; }
table.strips th, table.strips td { padding: 1px 10px 1px 0; white-space: nowrap; vertical-align: middle; }
table.strips th.who { width: 11.5em; overflow: hidden; text-overflow: ellipsis; }
table.strips .n { width: 6.6em; padding-right: 0; }
table.strips svg { display: block; width: 100%; height: 20px; border-radius: 3px; background: var(--grid); }
table.heat svg { border-radius: 0; } table.heat td, table.heat th { padding-top: 0; padding-bottom: 0; }
tr.slowest th, tr.slowest td.n { color: var(--heat); font-weight: 700; }
tr.slowest svg { outline: 2px solid var(--heat); outline-offset: -1px; }
tr.axis td { font-size: 0.76rem; color: var(--soft); padding-top: 3px !important; }
.ticks { display: flex; justify-content: space-between; }
.cell { fill: var(--heat); } .strips svg, .ramp svg { shape-rendering: crispEdges; }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 8px 0 10px; padding: 0; list-style: none;
  font-size: 0.84rem; }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
.ramp { display: inline-flex; align-items: center; gap: 8px; font-size: 0.8rem; color: var(--soft); margin: 2px 0 8px; }
.ramp svg { width: 120px; height: 10px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 20px 28px;
  margin-top: 10px; }
.plot { display: grid; grid-template-columns: 4.2em 1fr; grid-template-rows: 190px auto; gap: 3px 8px; }
.plot > svg { width: 100%; height: 190px; overflow: visible; }
.ys { display: flex; flex-direction: column; justify-content: space-between; text-align: right; margin: -0.6em 0; }
.ys, .xs { font-size: 0.76rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.xs { grid-column: 2; display: flex; justify-content: space-between; }
.plot .line { fill: none; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.plot .dots { fill: none; stroke-width: 6; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.plot .grid { stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
details > summary { cursor: pointer; font-weight: 600; }
.fail { color: var(--bad); font-weight: 600; } .warn { color: var(--other); font-weight: 600; }
footer { font-size: 0.8rem; margin-top: 14px; }
@media (max-width: 560px) {
  main { padding: 10px 8px 30px; } section { padding: 12px; border-radius: 8px; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 6px; }
  .ticks span:nth-child(even) { display: none; } table.phases td { white-space: nowrap; }
  table.strips th.who { width: 7em; } table.strips .n { width: 4.9em; font-size: 0.8rem; }
}
@media print {
  :root { --page: #fff; } body { font-size: 11px; } main { max-width: none; padding: 0; }
  section { break-inside: avoid; border-radius: 0; } section.long { break-inside: auto; }
  pre, .end { max-height: none; } pre { white-space: pre-wrap; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
