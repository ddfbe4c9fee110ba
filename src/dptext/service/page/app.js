// The page of the gateway. The key and the originals are in variables of this tab and nowhere else.
"use strict";

const $ = (id) => document.getElementById(id);
let key = "", models = [], account = "", answer = null, watching = "";

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

async function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${key}`, ...(options.headers || {}) };
  const found = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (found.ok) return found;
  const told = await found.json().catch(() => ({ detail: "It failed." }));
  const numbers = told.asked ? ` Asked ${told.asked}, left ${told.left}, missing ${told.missing}.` : "";
  const error = new Error(told.detail + numbers);
  error.status = found.status;
  throw error;
}

// One key a release: when the network fails, the same release is asked for again, and is charged once.
async function insist(path, options) {
  const headers = { ...options.headers, "Idempotency-Key": crypto.randomUUID() };
  for (let left = 5; ; left--) {
    try {
      return await ask(path, { ...options, headers });
    } catch (error) {
      if (left === 0 || (error.status && ![409, 429, 503].includes(error.status))) throw error;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

function cell(row, text, kind = "td") {
  const made = document.createElement(kind);
  made.textContent = text;
  row.append(made);
}

async function showBudget() {
  const found = (await (await ask("/v1/accounts")).json())[0];
  if (!found) { $("budget").textContent = "This key has no account."; return; }
  account = found.name;
  const meter = document.createElement("meter");
  meter.max = found.epsilon;
  meter.value = Number(found.spent.replaceAll(",", "")) || 0;
  meter.setAttribute("aria-label", `Spent ${found.spent} of ${found.epsilon}`);
  const text = document.createElement("p");
  text.textContent = `Account ${found.name}, per ${found.unit}: epsilon ${found.spent} of ${found.epsilon} spent, ` +
    `${found.left} left, in ${found.charges} charges.`;
  $("budget").replaceChildren(meter, text);
  const log = (await (await ask(`/v1/accounts/${encodeURIComponent(account)}`)).json()).log;
  const table = document.createElement("table");
  for (const each of log) {
    const row = table.insertRow();
    cell(row, each.number); cell(row, each.at); cell(row, each.kind);
    cell(row, each.release ? "released" : "nothing visible yet");
  }
  $("charges").replaceChildren(table);
}

async function showModel() {
  const found = models.find((each) => each.name === $("model").value);
  if (!found) return;
  $("sentence").textContent = found.sentence;
  $("words").textContent = found.words.join("\n\n");
  const corpus = found.answers === "a corpus";
  $("few").hidden = corpus;
  $("label-box").hidden = !found.labels.length;
  $("label").replaceChildren(...found.labels.map((each) => new Option(each, each)));
  try {
    const cost = await (await ask(`/v1/models/${encodeURIComponent(found.name)}/cost`)).json();
    $("cost").textContent = `A release costs epsilon ${cost.epsilon}, for a few texts as for a file. ${cost.left}`;
  } catch (error) {
    $("cost").textContent = error.message;
  }
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  try {
    models = await (await ask("/v1/models")).json();
  } catch (error) {
    key = "";
    say(error.message, true);
    return;
  }
  $("key").value = "";
  $("sign-in").hidden = true;
  $("signed-in").hidden = $("sign-out").hidden = false;
  $("model").replaceChildren(...models.map((each) => new Option(`${each.name} (answers ${each.answers})`, each.name)));
  say(`Signed in. ${models.length} model${models.length === 1 ? "" : "s"} can be used.`);
  $("model").focus();
  const before = location.hash.slice(1);
  if (before) follow(before);
  await Promise.all([showModel(), showBudget().catch((error) => { $("budget").textContent = error.message; })]);
});

$("sign-out").addEventListener("click", () => { location.hash = ""; location.reload(); });
$("model").addEventListener("change", showModel);

$("texts-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const lines = $("texts").value.split("\n").filter((line) => line.trim());
  if (!lines.length) { say("Expected a text.", true); return; }
  const model = models.find((each) => each.name === $("model").value);
  const label = model.labels.length ? { label: $("label").value } : {};
  const button = event.submitter;
  button.disabled = true;
  say("Privatizing.");
  try {
    const found = await insist(`/v1/models/${encodeURIComponent($("model").value)}/privatize`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ records: lines.map((text) => ({ text, ...label })) }),
    });
    answer = await found.json();
    const rows = answer.releases.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    $("pairs").replaceChildren(...rows.map((each, i) => {
      const row = document.createElement("tr");
      cell(row, lines[i]);
      cell(row, each.label === undefined ? each.text : `${each.text} (${each.label})`);
      return row;
    }));
    $("certificate").textContent = `${answer.sentence}\n\n${answer.words}`;
    $("legal").textContent = answer.legal;
    $("result").hidden = false;
    say(`Released ${rows.length} text${rows.length === 1 ? "" : "s"}. ${answer.left}`);
    await showBudget();
    await showModel();
  } catch (error) {
    say(error.message, true);
  }
  button.disabled = false;
});

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

$("save-releases").addEventListener("click", () => save("releases.jsonl", new Blob([answer.releases])));
$("save-certificate").addEventListener("click", () =>
  save("releases.jsonl.guarantee.json", new Blob([answer.certificate])));

for (const name of ["dragover", "drop"]) {
  $("file-form").addEventListener(name, (event) => {
    event.preventDefault();
    $("file-form").classList.toggle("drag", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) $("file").files = event.dataTransfer.files;
  });
}

$("file-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const file = $("file").files[0], found = models.find((each) => each.name === $("model").value);
  const query = new URLSearchParams({
    model: found.name, format: file.name.split(".").pop().toLowerCase(), text_field: $("text-field").value,
  });
  if ($("label-field").value) query.set("label_field", $("label-field").value);
  say(`Sending ${file.name}.`);
  try {
    const path = found.answers === "a corpus" ? "/v1/synthesize" : "/v1/jobs";
    const told = await (await insist(`${path}?${query}`, { method: "POST", body: file })).json();
    location.hash = told.id;
    follow(told.id);
  } catch (error) {
    say(error.message, true);
  }
});

async function follow(id) {
  watching = id;
  $("job").hidden = false;
  $("job-done").hidden = $("job-told").hidden = $("topics").hidden = true;
  while (watching === id) {
    let told;
    try {
      told = await (await ask(`/v1/jobs/${encodeURIComponent(id)}`)).json();
    } catch (error) {
      say(error.message, true);
      if (error.status) return;
      await new Promise((done) => setTimeout(done, 2000));
      continue;
    }
    const open = ["queued", "running", "cancelling"].includes(told.state);
    $("job-state").textContent = `The job is ${told.state}: ${told.records_done.toLocaleString("en")} records. ` +
      (told.problem || "");
    $("job-progress").hidden = $("job-cancel").hidden = !open;
    if (!open) {
      say(`The job is ${told.state}.`, told.state !== "done");
      if (told.state === "done") await finished(told);
      await Promise.all([showBudget(), showModel()]);
      return;
    }
    await new Promise((done) => setTimeout(done, 700));
  }
}

async function finished(told) {
  $("job-done").hidden = false;
  const said = await (await ask(`/v1/jobs/${told.id}/words`)).json();
  $("job-told").hidden = false;
  $("job-words").textContent = said.words;
  $("job-legal").textContent = said.legal;
  if (told.kind === "synthesize") {
    showTopics(await (await ask(`/v1/topics/${told.id}`)).json());
  }
}

function showTopics(report) {
  const totals = (report.counts[0] || []).map((_, i) => report.counts.reduce((sum, row) => sum + Math.max(0, row[i]), 0));
  const all = totals.reduce((sum, each) => sum + each, 0) || 1;
  const named = report.topics.length
    ? report.topics.map((each, i) => [each.words.slice(0, 4).join(", "), totals[i] / all])
    : report.labels.map((each, i) => [each, report.by_label[i] / all]);
  const shares = named.sort((one, other) => other[1] - one[1]);
  const most = Math.max(...shares.map((each) => each[1]), 1e-9);
  $("bars").replaceChildren(...shares.map(([name, share]) => {
    const row = document.createElement("div");
    row.className = "bar";
    cell(row, name, "span");
    const bar = document.createElement("meter");
    bar.max = most;
    bar.value = Math.max(0, share);
    row.append(bar);
    cell(row, `${(100 * share).toFixed(1)} %`, "span");
    return row;
  }));
  $("topics").hidden = false;
}

async function fetched(what, name) {
  const found = await ask(`/v1/jobs/${watching}/${what}`);
  const given = /filename="?([^";]+)/.exec(found.headers.get("Content-Disposition") || "");
  save(given ? given[1] : name, await found.blob());
}

$("job-result").addEventListener("click", () => fetched("result", "result"));
$("job-certificate").addEventListener("click", () => fetched("certificate", "result.guarantee.json"));
$("job-cancel").addEventListener("click", () => ask(`/v1/jobs/${watching}`, { method: "DELETE" }));
