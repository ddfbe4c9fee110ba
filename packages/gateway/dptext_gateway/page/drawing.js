// The drawings of the page, from data of app.js.
"use strict";

const $ = (id) => document.getElementById(id);

function cell(row, text, kind = "td") {
  const made = document.createElement(kind);
  made.textContent = text;
  row.append(made);
  return made;
}

// Parts of a whole as [from, width, class]; a margin is drawn thin.
function bar(label, parts) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["viewBox", "0 0 100 10"], ["preserveAspectRatio", "none"], ["role", "img"],
    ["aria-label", label], ["class", "meter"]]) made.setAttribute(name, value);
  for (const [from, width, kind] of parts) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", "rect"), thin = kind === "margin";
    const left = Math.min(100, Math.max(0, 100 * from)), right = Math.min(100, Math.max(0, 100 * (from + width)));
    for (const [name, value] of [["x", left], ["width", right - left], ["y", thin ? 4 : 0], ["height", thin ? 2 : 10],
      ["class", kind]]) part.setAttribute(name, value);
    made.append(part);
  }
  return made;
}

// Noisy numbers with their intervals, as the report has them. `longest` is the largest of the whole picture, so that bars
// of several groups can be compared. The largest number comes first, or what comes first in the data.
function drawNumbers(where, names, known, longest, asGiven = false) {
  const order = names.map((_, i) => i), rounded = (value) => Math.round(value).toLocaleString("en");
  if (!asGiven) order.sort((one, other) => known.numbers[other] - known.numbers[one]);
  where.hidden = !names.length;
  where.lastElementChild.replaceChildren(...order.map((i) => {
    const row = document.createElement("div"), [count, low, high] = [known.numbers[i], known.low[i], known.high[i]];
    const shown = `${rounded(count)} (${rounded(low)} to ${rounded(high)})`;
    row.className = "bar";
    cell(row, names[i], "span");
    row.append(bar(`${names[i]}: ${shown}`, [[0, count / longest, "share"],
      [low / longest, (high - low) / longest, "margin"]]));
    cell(row, shown, "span");
    return row;
  }));
}

// A link to the glossary, in a tab of its own: this one has the key.
function glossary(text) {
  const link = document.createElement("a");
  Object.assign(link, { href: "glossary.html", target: "_blank", rel: "noopener", textContent: text });
  return link;
}

// The page for whoever answers for the release: sections of sentences, and tables whose first row is their head.
function drawLegal(where, page) {
  where.replaceChildren();
  cell(where, page.title, "p");
  for (const { heading, lines, table } of page.sections) {
    cell(where, heading, "h4");
    const list = cell(where, "", "ul");
    for (const line of lines) cell(list, line, "li");
    const rows = table.length ? cell(cell(where, "", "div"), "", "table") : null;
    table.forEach((each, i) => {
      const row = cell(rows, "", "tr");
      for (const text of each) cell(row, text, i ? "td" : "th");
    });
    if (rows) rows.parentElement.className = "wide";
  }
  const [said, terms] = page.footer.split(" Terms: "), last = cell(where, said, "p");
  if (terms) last.append(" Terms: ", glossary("the glossary"), ".");
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
