"""The style of a report: light and dark, on screens of any width and on paper."""

from typing import Final

STYLE: Final = """
:root {
  --bg: #ffffff; --sunken: #f2f5f6; --border: #dfe4e8; --text: #17212a; --text-2: #52606d; --text-3: #667380;
  --good: #17713f; --good-soft: #e1f3e8; --bad: #b3261e; --bad-soft: #fde8e6;
  --open-soft: #e3edf9; --warn-soft: #fcefd6;
  --c1: #0b7d72; --c2: #2f6fbf; --c3: #b87503; --c4: #c93a30; --c5: #7a56b8; --grid: #e3e8eb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #11161b; --sunken: #1a2128; --border: #2a333c; --text: #e3e8ed; --text-2: #a9b4bf; --text-3: #8d99a6;
    --good: #62cb8e; --good-soft: #14291d; --bad: #f2867d; --bad-soft: #371a18;
    --open-soft: #152538; --warn-soft: #2e2312;
    --c1: #4cc4b4; --c2: #6ea8ef; --c3: #e0a644; --c4: #ef7a70; --c5: #b395ea; --grid: #263038;
  }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; }
body {
  max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; background: var(--bg); color: var(--text);
  font: 400 0.9375rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { margin: 0; font-size: 1.75rem; line-height: 1.25; letter-spacing: -0.015em; overflow-wrap: anywhere; }
h2 { margin: 0 0 0.25rem; font-size: 1.1875rem; line-height: 1.35; letter-spacing: -0.01em; }
h3 { margin: 1.5rem 0 0.5rem; font-size: 0.9375rem; overflow-wrap: anywhere; }
p, dl, dd, ul, figure { margin: 0; padding: 0; }
ul { padding-left: 1.25rem; }
li { overflow-wrap: anywhere; }
section { margin-top: 2.5rem; }
bdi { overflow-wrap: anywhere; }
.about { margin: 0 0 0.75rem; max-width: 48rem; color: var(--text-2); overflow-wrap: anywhere; }
.note { margin-top: 0.5rem; color: var(--text-2); font-size: 0.8125rem; }
.warning { margin: 1rem 0 0.5rem; padding: 0.625rem 0.875rem; border-radius: 0.375rem; background: var(--warn-soft); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.verdict { margin-top: 1.5rem; padding: 1.25rem 1.5rem; border-radius: 0.625rem; color: var(--text); }
.verdict h2 { font-size: 1.375rem; }
.verdict.good { background: var(--good-soft); }
.verdict.good h2 { color: var(--good); }
.verdict.bad { background: var(--bad-soft); }
.verdict.bad h2 { color: var(--bad); }
.verdict.open { background: var(--open-soft); }
.heroes { display: flex; flex-wrap: wrap; gap: 1rem 3.5rem; margin-top: 1rem; }
.hero { display: flex; align-items: baseline; gap: 0 1rem; flex-wrap: wrap; }
.hero-label { flex-basis: 100%; color: var(--text-2); font-size: 0.8125rem; }
.hero b { display: block; font-size: 1.625rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.hero small { color: var(--text-2); }
.hero-arrow { color: var(--text-3); font-size: 1.25rem; }
.size { display: flex; flex-wrap: wrap; gap: 0.75rem 2.5rem; margin-top: 1.5rem; }
.size dt { color: var(--text-2); font-size: 0.8125rem; }
.size dd { font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.25rem 1.5rem; }
.facts dt { color: var(--text-2); }
.terms dt { margin-top: 0.75rem; font-weight: 600; }
.terms dd { max-width: 48rem; color: var(--text-2); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.875rem; }
th, td { padding: 0.375rem 0.75rem 0.375rem 0; border-bottom: 1px solid var(--border); }
th, td { text-align: left; vertical-align: top; }
th { color: var(--text-2); font-size: 0.75rem; font-weight: 600; vertical-align: bottom; }
td:first-child { min-width: 8rem; }
td:not(.number):has(bdi) { min-width: 7rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { white-space: normal; }
.number + .number { padding-left: 0.75rem; }
.explained b { display: block; font-weight: 550; }
small { color: var(--text-3); font-size: 0.8125rem; }
.explained small { display: block; }
section > table, section > .scroll { margin-top: 0.25rem; }
section > .scroll + .scroll { margin-top: 1.25rem; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.5rem 2rem; }
figcaption { font-weight: 600; font-size: 0.875rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; min-height: 1.5em; color: var(--text-2); font-size: 0.75rem; }
.key { display: inline-flex; align-items: center; gap: 0.375rem; }
.swatch { width: 0.75rem; height: 0.25rem; }
.chart { display: block; width: 100%; height: auto; }
.grid { stroke: var(--grid); stroke-width: 1; }
.tick { fill: var(--text-3); font-size: 11px; font-variant-numeric: tabular-nums; }
.tick.end { text-anchor: end; }
.tick.middle { text-anchor: middle; }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.bar { display: block; width: 6rem; height: 0.5rem; margin-top: 0.4375rem; }
.track { fill: var(--sunken); }
.fill-1 { fill: var(--c1); } .fill-2 { fill: var(--c2); } .fill-3 { fill: var(--c3); }
.fill-4 { fill: var(--c4); }
.fill-5 { fill: var(--c5); }
.line-1 { stroke: var(--c1); } .line-2 { stroke: var(--c2); } .line-3 { stroke: var(--c3); }
.line-4 { stroke: var(--c4); }
.line-5 { stroke: var(--c5); }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--border); color: var(--text-3); }
@media (max-width: 40rem) {
  body { padding: 1.5rem 1rem 2rem; }
  .verdict { padding: 1rem; }
  .charts { grid-template-columns: minmax(0, 1fr); }
  .bar { width: 3rem; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .facts dd { margin-bottom: 0.5rem; }
  td:first-child { min-width: 6.5rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  section { break-inside: auto; }
  h2, h3, figure, tr { break-after: avoid; break-inside: avoid; }
  .scroll { overflow: visible; }
}
"""
