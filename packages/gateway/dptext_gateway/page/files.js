// A file for a model: what columns it has, which of them are what, and how it is sent.
"use strict";

const FIRST = 1_000_000; // bytes of a file in which its first row is looked for
const fates = new Map(); // whether files were sent, in words
const fileNames = new Map(); // of what this tab sent, by job: a name may be private, so the gateway gets none

for (const name of ["dragover", "drop"]) { // a file dropped beside the form would replace the page
  document.addEventListener(name, (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
}
for (const name of ["dragover", "dragleave", "drop"]) {
  $("file-form").addEventListener(name, acting(async (event) => {
    event.preventDefault();
    $("file-form").classList.toggle("drag", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) {
      $("file").files = event.dataTransfer.files;
      await offerColumns();
    }
  }));
}
$("file").addEventListener("change", acting(offerColumns));

const formatOf = (file) => file.name.split(".").pop().toLowerCase();
const markOf = (file) => `${file.name}\n${file.size}\n${file.lastModified}`;

// Whether the chosen file was sent.
function showFate() {
  const file = $("file").files[0];
  $("file-sent").textContent = file ? fates.get(markOf(file)) ?? "It was not sent yet." : "";
}

// The names in the header of CSV, as the gateway reads it: commas, double quotes. Null: there is no header to be read.
function headerOf(text) {
  const names = [], name = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  for (;;) {
    const found = name.exec(text);
    if (!found) return null;
    names.push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] !== ",") return names;
  }
}

// The columns of a file, by its header or its first record. Null: the file cannot be read here, such as Parquet. The
// first bytes are read in this tab, and nothing is sent.
async function columnsOf(file) {
  const text = (await file.slice(0, FIRST).text()).replace(/^\ufeff/, "");
  let names = null;
  if (formatOf(file) === "csv" && /[\r\n]/.test(text)) names = headerOf(text);
  if (formatOf(file) === "jsonl") {
    try {
      const row = JSON.parse(text.split("\n").find((line) => line.trim()));
      names = row && typeof row === "object" && !Array.isArray(row) ? Object.keys(row) : null;
    } catch {
      return null; // the job says what the file is instead
    }
  }
  const fine = names && names.length && new Set(names).size === names.length && !names.some((each) => !each.trim());
  return fine && !names.join().includes("\ufffd") ? names : null; // else it is not in UTF-8
}

// Put a list of these columns, or without any a field to type in, in the place of one that is there. A column is chosen
// beforehand only where the model needs one: a label that it does not read would leave as it is.
function offer(id, columns, usual) {
  const before = $(id), made = document.createElement(columns ? "select" : "input");
  made.id = id;
  made.required = before.required;
  if (columns) {
    const none = new Option(before.required ? "choose one" : "none", "");
    made.append(none, ...columns.map((each) => new Option(each, each)));
    made.value = [before.value, before.required && usual].find((each) => columns.includes(each)) || "";
  } else {
    made.value = before.value || (before.required ? usual : "");
    made.placeholder = "none";
  }
  before.replaceWith(made);
}

async function offerColumns() {
  const file = $("file").files[0], columns = file ? await columnsOf(file) : null;
  if (file !== $("file").files[0]) return; // another was chosen meanwhile
  for (const [id, usual] of [["text-field", "text"], ["label-field", "label"], ["author-field", "author"]]) {
    offer(id, columns, usual);
  }
  $("columns-found").textContent = columns ? `The file has the columns ${columns.join(", ")}.` : "";
  if (file && !columns) $("columns-found").textContent = "Its columns cannot be read here: type their names.";
  showFate();
}

// Another model may need a label where this one needs none, or the other way round.
async function changeModel() {
  const listed = $("label-field").tagName === "SELECT";
  if (listed) $("label-field").value = "";
  await showModel();
  if (listed) await offerColumns();
}

$("file-form").addEventListener("submit", acting(async (event) => {
  event.preventDefault();
  const file = $("file").files[0], model = chosen(), button = event.submitter, kinds = $("file").accept.split(",");
  if (!kinds.some((each) => file.name.toLowerCase().endsWith(each))) { // a drop does not check the accepted types
    throw new Error(`Expected a file that ends in one of ${kinds.join(", ")}.`);
  }
  if (file.size > me.max_file) {
    const [size, most] = [file.size, me.max_file].map((each) => each.toLocaleString("en"));
    throw new Error(`Expected at most ${most} bytes; this file has ${size}. Send it in parts: each is charged.`);
  }
  const query = new URLSearchParams({ model: model.name, format: formatOf(file), text_field: $("text-field").value,
    ...most(model) });
  if ($("label-field").value) query.set("label_field", $("label-field").value);
  if (me.unit === "author") query.set("author_field", $("author-field").value);
  const fields = ["text_field", "label_field", "author_field"].map((each) => query.get(each)).filter(Boolean);
  const absent = await lacking(file, [...fields, ...model.measured]);
  if (absent.length) throw new Error(`The first record has no column ${absent.join(", ")}. Nothing was sent.`);
  const path = `${model.answers === "a corpus" ? "/v1/synthesize" : "/v1/jobs"}?${query}`;
  if (!await meant(path, markOf(file), file.name)) return;
  button.disabled = true;
  $("sent").value = 0;
  $("sent").hidden = false;
  say(`Sending ${file.name}.`);
  try {
    await told("/v1/key"); // an invalid key is noticed before the file is sent
    fates.set(markOf(file), ""); // until there is an answer nobody knows
    showFate();
    const { id, created } = await insist(path, markOf(file), { body: file });
    fates.set(markOf(file), `It was sent for the model ${model.name} at ${minute(created)}.`);
    fileNames.set(id, file.name);
    showFate();
    say(`${file.name} is there, and its job is in the list.`);
    location.hash = id; // the page then follows the job
  } finally {
    button.disabled = false;
    $("sent").hidden = true;
  }
  await showJobs();
}));

// The columns that the first row of JSON Lines lacks. A job finds them, too, but a synthesis would be charged: it tells
// nobody what a record has. This check tells only the person who has the file. A header of CSV is checked before a
// charge.
async function lacking(file, columns) {
  const found = formatOf(file) === "jsonl" ? await columnsOf(file) : null;
  return found ? columns.filter((each) => !found.includes(each)) : [];
}
